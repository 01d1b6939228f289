"""The series about devices: counted in a child of the worker, set at once, kept where there is no answer."""

import asyncio
import contextlib
from typing import Any, cast

import pytest

from scheduler.cluster import Cluster
from scheduler.observe.metrics import Metrics
from scheduler.settings import Settings
from scheduler.settings.observability import MetricsSettings
from scheduler.settings.schema import API_VERSION, KIND
from scheduler.worker.fleet_counter import FleetCounter
from scheduler.worker.supervisor import WorkerAbsentError, WorkerSupervisor
from tests.scheduler.worker.test_child import ask, children_of, forked
from tests.support import builders as b
from tests.support.cluster_builders import seen, unit
from tests.support.shell_clock import VirtualClock
from tests.support.shell_process import Shell, running

SETTINGS = Settings(
    api_version=API_VERSION, kind=KIND, metrics=MetricsSettings(interval_seconds=3600, per_node=True, most_namespaces=1)
)


def counter(shell: Shell, metrics: Metrics) -> FleetCounter:
    return FleetCounter(shell.worker, shell.cluster, metrics, SETTINGS, also=lambda: None)


def devices(metrics: Metrics) -> dict[str, float]:
    """The devices of the class `gpu` by state."""
    samples = next(each for each in metrics.registry.collect() if each.name == "dovetail_devices").samples
    return {each.labels["state"]: each.value for each in samples if each.labels["device_class"] == b.GPU_CLASS}


async def test_the_fleet_is_counted_as_the_shell_knows_it() -> None:
    metrics = Metrics()
    async with running() as shell:
        await counter(shell, metrics).count()
        before = devices(metrics)
        shell.see(seen(b.held("job", b.result("gpu", "gpu-0", "n1"), namespace="red")))
        last = counter(shell, metrics)
        await last.count()

    assert {each.state for each in last.devices} == {"free", "held"}
    total = sum(before.values())
    assert before == {"free": total}
    assert devices(metrics) == {"free": total - 1, "held": 1}
    value = metrics.registry.get_sample_value
    assert value("dovetail_namespace_devices", {"namespace": "red", "device_class": b.GPU_CLASS}) == 1
    assert value("dovetail_node_devices", {"node": "n1", "device_class": b.GPU_CLASS, "state": "held"}) == 1
    assert value("dovetail_largest_free_block", {"device_class": b.GPU_CLASS, "scope": "node"}) == total - 1


async def test_a_fleet_that_has_not_changed_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cost an idle scheduler of 5,000 nodes most of its CPU time."""
    async with running() as shell:
        ask_child, asked = shell.worker.ask_child, list[None]()

        async def counting(*arguments: Any) -> Any:
            asked.append(None)
            return await ask_child(*arguments)

        monkeypatch.setattr(shell.worker, "ask_child", counting)
        metrics = Metrics()
        same = counter(shell, metrics)
        await same.count()
        await same.count()
        assert len(asked) == 1
        shell.see(seen(b.held("job", b.result("gpu", "gpu-0", "n1"))))
        await same.count()
        assert (len(asked), devices(metrics)["held"]) == (2, 1)


async def test_an_assumed_allocation_is_counted() -> None:
    metrics = Metrics()
    async with running() as shell:
        same = counter(shell, metrics)
        await same.count()
        allocated = b.claim_allocation(b.claim("c"), b.result("gpu", "gpu-0", "n1"))
        shell.cluster.assume(unit(allocated, b.placement(b.pod("p", "c"), "n1")))
        await same.count()
    assert devices(metrics)["held"] == 1


async def test_an_assumption_that_ends_after_it_was_counted_is_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica is sent its changes before the order; a write that the API server refuses changes no object."""
    metrics = Metrics()
    async with running() as shell:
        ask_child, same = shell.worker.ask_child, counter(shell, metrics)
        assumed = unit(
            b.claim_allocation(b.claim("c"), b.result("gpu", "gpu-0", "n1")), b.placement(b.pod("p", "c"), "n1")
        )

        async def assuming(*arguments: Any) -> Any:
            shell.cluster.assume(assumed)
            return await ask_child(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(shell.worker, "ask_child", assuming)
            await same.count()
        assert devices(metrics)["held"] == 1
        shell.cluster.forget(assumed)
        await same.count()
    assert "held" not in devices(metrics)


async def test_a_count_goes_on_beside_an_isolated_decision_and_batches() -> None:
    async with running() as shell:
        isolated = asyncio.create_task(ask(shell, "hang"))
        await forked(shell)
        metrics = Metrics()
        _, plan = await asyncio.gather(counter(shell, metrics).count(), shell.decide(("p", "c")))
        assert devices(metrics)
        assert plan.placements
        assert not isolated.done()
        assert len(children_of(shell.worker.pid)) == 1
        isolated.cancel()


async def test_without_a_worker_the_series_stay() -> None:
    metrics = Metrics()
    async with running() as shell:
        await counter(shell, metrics).count()
        before = devices(metrics)
    await counter(shell, metrics).count()

    assert devices(metrics) == before != {}


async def test_the_first_count_leaves_time_to_the_first_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of the worker while it decides for the first time would slow that decision, for which all pods wait."""
    clock, counted = VirtualClock(0.0), list[float]()

    class Worker:
        change_count = 0

        async def wait_until_ready(self) -> None:
            """It is ready at once."""

        async def ask_child(self, *_: object) -> None:
            counted.append(clock())
            raise asyncio.CancelledError if len(counted) > 1 else WorkerAbsentError("none")

    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    worker = cast(WorkerSupervisor, Worker())
    with contextlib.suppress(asyncio.CancelledError):
        await FleetCounter(worker, Cluster(), Metrics(), SETTINGS, also=lambda: None).run()
    assert counted == [2.0, 2.0 + SETTINGS.metrics.interval_seconds]
