"""How long a unit waits for its devices, what ends it, and what is told and avoided."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import cast

import msgspec
import pytest

from scheduler.change import Change
from scheduler.commit.local_taints import FailedDevices, LocalTaints
from scheduler.commit.prebind import DevicesReady, PreBind, PreemptionBackoff, WaitFailed, WaitStopped
from scheduler.observe.metrics import Metrics
from scheduler.status.status_writer import StatusWriter
from solver.domain import Batch, Claim, DeviceStatus, Pod, ReasonCode
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, gone, seen, unit
from tests.support.idle_loop import until_idle

ALLOCATED = 1_767_225_600.0  # 2026-01-01T00:00:00Z
POD = b.pod("p", b.entry("c"))
DEVICE = b.device_id("g0", "n1")
CLAIM = msgspec.structs.replace(
    b.claim(
        "c",
        allocation=b.allocation(
            b.result("r", "g0", "n1", binding_conditions=("attached",), binding_failure_conditions=("broken",)),
            node_name="n1",
            timestamp="2026-01-01T00:00:00Z",
        ),
        reserved_for=(b.consumer("p"),),
    ),
    resource_version="5",
)
UNIT = unit(b.placement(POD, "n1"))


def saying(**conditions: str) -> Claim:
    status = DeviceStatus(device=DEVICE, conditions=tuple(conditions.items()))
    return msgspec.structs.replace(CLAIM, device_status=(status,), resource_version="6")


class ReportedStatus:
    """Stands where users are told things."""

    tells_inventory = True

    def __init__(self) -> None:
        self.told: list[tuple[str, str, bool]] = []
        self.hushed: list[str] = []

    def report_prebind(self, pod: Pod, node: str, message: str, *, is_first: bool) -> None:
        self.told.append((pod.id.name, f"{node}: {message}", is_first))

    async def suppress(self, pod_uids: Iterable[str]) -> None:
        self.hushed.extend(pod_uids)


class PreBindScene:
    """A wait with the real mirror and a clock that a test sets."""

    def __init__(self) -> None:
        self.cluster = cluster_of(b.node("n1"), POD, CLAIM)
        self.reported = ReportedStatus()
        self.now, self.set_ahead = ALLOCATED + 1, 0.0
        self.begun = 0
        self.preemption_backoff = PreemptionBackoff(300.0, lambda: self.now)
        taints, self.following = LocalTaints(Metrics()), ExitStack()
        self.following.enter_context(taints.followed_by(self.see))
        self.waits = PreBind(
            self.cluster,
            cast("StatusWriter", self.reported),
            FailedDevices(taints, 300.0),
            self.preemption_backoff,
            timeout_seconds=600.0,
            on_begin=self._begin,
            clock=lambda: self.now,
            wall=lambda: self.now + self.set_ahead,
        )

    def see(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.cluster.apply(change)
            self.waits.see(change)

    def avoided(self) -> list[str]:
        return [str(each.device) for each in self.cluster.snapshot().taint_rules]

    async def wait(self, claim: Claim = CLAIM) -> "asyncio.Task[DevicesReady | WaitFailed | WaitStopped]":
        task = asyncio.create_task(self.waits.until_ready(UNIT, (claim,)))
        await until_idle()
        return task

    def _begin(self) -> None:
        self.begun += 1


async def test_a_claim_without_conditions_is_ready_at_once() -> None:
    scene = PreBindScene()
    plain = b.claim("c", allocation=b.allocation(b.result("r", "g0", "n1"), node_name="n1"))

    assert await scene.waits.until_ready(UNIT, (plain,)) == DevicesReady()
    assert scene.begun == 0


async def test_the_wait_ends_when_the_condition_is_true() -> None:
    scene = PreBindScene()
    task = await scene.wait()
    assert scene.waits.count == 1
    scene.see([seen(saying(attached="True"))])

    assert await task == DevicesReady()
    assert (scene.waits.count, scene.reported.hushed) == (0, [POD.uid])


async def test_the_condition_names_what_is_awaited_since_when_and_until_when() -> None:
    scene = PreBindScene()
    task = await scene.wait()
    scene.waits.close()
    await task

    ((pod, text, is_first),) = scene.reported.told
    assert (pod, is_first) == ("p", True)
    assert text == (
        "n1: the pod is to run on node n1 and waits for attached of device gpu.example.com/n1/g0 in claim c, "
        "since 2026-01-01T00:00:00Z and until 2026-01-01T00:10:00Z"
    )


async def test_a_failure_ends_the_wait_and_the_device_is_avoided() -> None:
    scene = PreBindScene()
    task = await scene.wait()
    scene.see([seen(saying(broken="True"))])

    end = await task
    assert isinstance(end, WaitFailed)
    assert end.reason.code is ReasonCode.BINDING_FAILED
    assert "broken of device gpu.example.com/n1/g0" in end.reason.message
    assert scene.avoided() == ["g0"]


@pytest.mark.parametrize(("later", "is_late"), [(599.0, False), (600.0, True)])
async def test_the_time_runs_from_the_allocation_and_not_from_the_wait(later: float, is_late: bool) -> None:  # noqa: FBT001 - a table
    scene = PreBindScene()
    scene.now = ALLOCATED + later
    task = await scene.wait()
    scene.waits.close()

    assert isinstance(await task, WaitFailed if is_late else WaitStopped)
    assert scene.avoided() == (["g0"] if is_late else [])


async def test_a_late_device_ends_a_wait_that_nothing_wakes() -> None:
    scene = PreBindScene()
    scene.now = ALLOCATED + 599.95
    task = await scene.wait()
    scene.now = ALLOCATED + 601

    end = await asyncio.wait_for(task, 60)
    assert isinstance(end, WaitFailed)
    assert end.reason.message.endswith("was not True within 600 s")


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        pytest.param(gone(POD), ReasonCode.CONFLICT, "pod default/p was deleted meanwhile", id="pod gone"),
        pytest.param(
            seen(msgspec.structs.replace(POD, is_deleting=True)),
            ReasonCode.CONFLICT,
            "pod default/p is being deleted or has ended",
            id="pod deleting",
        ),
        pytest.param(
            seen(msgspec.structs.replace(POD, node_name="n9")),
            ReasonCode.CONFLICT,
            "pod default/p was bound to node n9 by another client meanwhile",
            id="pod bound",
        ),
        pytest.param(gone(CLAIM), ReasonCode.CLAIM_MISSING, "claim default/c was deleted meanwhile", id="claim gone"),
        pytest.param(
            seen(msgspec.structs.replace(CLAIM, is_deleting=True)),
            ReasonCode.CLAIM_DELETING,
            "claim default/c is being deleted",
            id="claim deleting",
        ),
        pytest.param(
            seen(msgspec.structs.replace(CLAIM, allocation=None, resource_version="6")),
            ReasonCode.CONFLICT,
            "claim default/c was deallocated meanwhile",
            id="claim deallocated",
        ),
        pytest.param(
            seen(msgspec.structs.replace(CLAIM, allocation=b.allocation(b.result("r", "g1", "n1")))),
            ReasonCode.CONFLICT,
            "claim default/c was allocated again meanwhile",
            id="claim allocated anew",
        ),
    ],
)
async def test_what_makes_the_wait_pointless_ends_it_and_blames_no_device(
    change: Change, code: ReasonCode, message: str
) -> None:
    scene = PreBindScene()
    task = await scene.wait()
    scene.see([change])

    end = await task
    assert isinstance(end, WaitFailed)
    assert (end.reason.code, end.reason.message) == (code, message)
    assert scene.avoided() == []


async def test_a_watch_that_is_behind_the_write_ends_nothing() -> None:
    scene = PreBindScene()
    scene.see([seen(msgspec.structs.replace(CLAIM, allocation=None, reserved_for=(), resource_version="4"))])
    task = await scene.wait()

    assert not task.done()
    scene.waits.close()
    assert await task == WaitStopped()


async def test_a_node_that_is_gone_ends_the_wait_of_an_unready_unit() -> None:
    scene = PreBindScene()
    scene.see([gone(b.node("n1"))])

    end = await (await scene.wait())
    assert isinstance(end, WaitFailed)
    assert end.reason.message == "node n1 is gone"


async def test_a_pod_whose_device_failed_evicts_no_pod_for_the_next_device() -> None:
    scene = PreBindScene()
    task = await scene.wait()
    scene.see([seen(saying(broken="True"))])
    assert isinstance(await task, WaitFailed)

    (pod,) = scene.preemption_backoff.apply(Batch(pods=(POD,))).pods
    assert pod.preemption_policy == "Never"


async def test_a_pod_whose_claim_was_taken_away_is_not_to_blame() -> None:
    scene = PreBindScene()
    task = await scene.wait()
    scene.see([gone(CLAIM)])
    assert isinstance(await task, WaitFailed)

    assert scene.preemption_backoff.apply(Batch(pods=(POD,))).pods == (POD,)


@pytest.mark.parametrize("set_ahead", [-86_400.0, 86_400.0], ids=["set back", "set ahead"])
async def test_a_clock_that_is_set_does_not_change_the_preemption_backoff(set_ahead: float) -> None:
    scene = PreBindScene()
    task = await scene.wait()
    scene.see([seen(saying(broken="True"))])
    await task

    scene.set_ahead = set_ahead
    scene.now += 299.0
    assert POD.uid in scene.preemption_backoff
    scene.now += 2.0
    assert POD.uid not in scene.preemption_backoff


@pytest.mark.parametrize("set_ahead", [-86_400.0, 86_400.0], ids=["set back", "set ahead"])
async def test_a_clock_that_is_set_changes_nothing_of_how_long_a_device_is_waited_for(set_ahead: float) -> None:
    """Set ahead, every wait would end, and its device would be avoided; set back, it would last a day."""
    scene = PreBindScene()
    task = await scene.wait()
    scene.set_ahead = set_ahead
    scene.now = ALLOCATED + 599
    scene.see([seen(msgspec.structs.replace(saying(attached="False"), resource_version="7"))])
    await asyncio.sleep(0)
    assert not task.done()

    scene.now = ALLOCATED + 600
    scene.see([seen(msgspec.structs.replace(saying(attached="False"), resource_version="8"))])
    assert isinstance(await asyncio.wait_for(task, 60), WaitFailed)


async def test_an_allocation_of_the_future_is_waited_for_as_long_as_one_of_now() -> None:
    """The clock of the leader before was ahead."""
    scene = PreBindScene()
    scene.now = ALLOCATED - 86_400
    task = await scene.wait()
    scene.now += 600
    scene.see([seen(saying(attached="False"))])

    assert isinstance(await asyncio.wait_for(task, 60), WaitFailed)
