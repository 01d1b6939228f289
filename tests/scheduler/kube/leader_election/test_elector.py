"""Leader election on a real Lease, with short times."""

import asyncio
import itertools
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.plane import ControlPlane
from scheduler.kube import paths
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.errors import LeadershipLost
from scheduler.kube.leader_election.boot_clock import boot_time
from scheduler.kube.leader_election.elector import LeaderElector, new_identity
from scheduler.kube.leader_election.lease import Timing
from tests.scheduler.kube.conftest import Cluster
from tests.support.shell_proxy import Asked, LossyProxy, the_first

pytestmark = pytest.mark.controlplane

TIMING = Timing(lease_duration=3.0, renew_deadline=2.0, retry_period=0.3)


def elector(
    client: Client, namespace: str, identity: str, errors: list[Exception] | None = None, *, drains: bool = False
) -> LeaderElector:
    return LeaderElector(
        client,
        namespace=namespace,
        name="dovetail",
        identity=identity,
        timing=TIMING,
        on_error=(errors if errors is not None else []).append,
        drains=drains,
    )


@pytest.fixture
def first(cluster: Cluster) -> LeaderElector:
    return elector(cluster.client, cluster.namespace, "first")


async def stored(cluster: Cluster) -> Any:
    return (await cluster.send("GET", paths.leases(cluster.namespace, "dovetail")))["spec"]


async def test_the_first_one_leads_and_writes_at_once(cluster: Cluster, first: LeaderElector) -> None:
    assert not first.may_write()
    await asyncio.wait_for(first.acquire(), 10)
    assert first.may_write()
    spec = await stored(cluster)
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("first", 0, 3)


async def test_a_lease_that_is_deleted_leaves_the_marker_and_is_free_no_sooner(
    cluster: Cluster, first: LeaderElector
) -> None:
    await first.acquire()
    await cluster.send("DELETE", paths.leases(cluster.namespace, "dovetail"))
    second, began = elector(cluster.client, cluster.namespace, "second"), boot_time()
    await asyncio.wait_for(second.acquire(), 10)
    assert boot_time() - began >= TIMING.lease_duration
    assert not first.may_write()


async def test_what_a_leader_hands_down_is_known_to_the_next_one_and_outlives_its_renewals(
    cluster: Cluster, first: LeaderElector
) -> None:
    await first.acquire()
    hold = asyncio.create_task(first.hold())
    await asyncio.gather(*(first.write_record(f"{number}") for number in range(3)), first.write_record("last"))
    await asyncio.sleep(1.0)
    hold.cancel()
    await first.release()
    second = elector(cluster.client, cluster.namespace, "second")
    await asyncio.wait_for(second.acquire(), 10)
    assert second.earlier_record == ("last", "1")


async def test_renewing_keeps_the_lease_beyond_its_duration(cluster: Cluster, first: LeaderElector) -> None:
    await first.acquire()
    hold = asyncio.create_task(first.hold())
    second = elector(cluster.client, cluster.namespace, "second")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.acquire(), 4.5)
    assert first.may_write()
    assert not second.may_write()
    hold.cancel()


async def test_a_released_lease_is_taken_at_once_and_written_under_at_once(
    cluster: Cluster, first: LeaderElector
) -> None:
    await first.acquire()
    await first.release()
    assert not first.may_write()
    second = elector(cluster.client, cluster.namespace, "second")
    await asyncio.wait_for(second.acquire(), 1)
    assert second.may_write()
    spec = await stored(cluster)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)


async def test_a_lease_that_ran_out_is_taken_when_no_write_of_its_holder_can_count(
    cluster: Cluster, first: LeaderElector
) -> None:
    await first.acquire()  # and never renewed: as if it were stopped
    second = elector(cluster.client, cluster.namespace, "second")
    began = boot_time()
    await asyncio.wait_for(second.acquire(), 10)
    assert boot_time() - began >= TIMING.lease_duration
    assert not first.may_write()
    assert second.may_write()
    assert not second.election.is_clean
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(first.hold(), 5)


async def test_a_lease_that_was_written_meanwhile_is_released(cluster: Cluster, first: LeaderElector) -> None:
    await first.acquire()
    path = paths.leases(cluster.namespace, "dovetail")
    await cluster.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE_PATCH)
    await first.release()
    assert not (await stored(cluster)).get("holderIdentity")


@pytest.mark.parametrize("deed", ["deletes it", "removes the holder"])
async def test_a_lease_that_another_client_frees_is_taken_no_sooner(
    cluster: Cluster, first: LeaderElector, deed: str
) -> None:
    await first.acquire()
    second = elector(cluster.client, cluster.namespace, "second")
    taking = asyncio.create_task(second.acquire())
    await asyncio.sleep(0.7)
    began, path = boot_time(), paths.leases(cluster.namespace, "dovetail")
    if deed == "deletes it":
        await cluster.send("DELETE", path)
    else:
        await cluster.send("PATCH", path, {"spec": {"holderIdentity": ""}}, content_type=MERGE_PATCH)
    await asyncio.wait_for(taking, 10)
    assert boot_time() - began >= TIMING.lease_duration
    assert not second.election.is_clean


async def test_a_drained_lease_is_taken_by_no_replica_until_that_ends(cluster: Cluster, first: LeaderElector) -> None:
    await first.acquire()
    hold = asyncio.create_task(first.hold())
    drains = elector(cluster.client, cluster.namespace, "drains", drains=True)
    assert await drains.drain(is_drained=True)
    await asyncio.wait_for(first.drained.wait(), 5)
    hold.cancel()
    await first.release()
    replica = elector(cluster.client, cluster.namespace, "replica")
    waiting = asyncio.create_task(replica.acquire())
    await asyncio.wait_for(drains.acquire(), 5)
    await drains.release()
    await asyncio.sleep(1.0)
    assert not waiting.done()
    await drains.drain(is_drained=False)
    await asyncio.wait_for(waiting, 5)


async def test_a_lease_that_is_deleted_is_lost(cluster: Cluster, first: LeaderElector) -> None:
    await first.acquire()
    await cluster.send("DELETE", paths.leases(cluster.namespace, "dovetail"))
    with pytest.raises(LeadershipLost, match="it was deleted"):
        await asyncio.wait_for(first.hold(), 5)
    assert not first.may_write()


async def test_a_server_that_is_gone_ends_leading_with_the_deadline(
    proxy: LossyProxy, namespace: str, tmp_path: Path
) -> None:
    errors: list[Exception] = []
    async with Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client:
        leader = elector(client, namespace, "first", errors)
        await leader.acquire()
        proxy.partition(requests=False)
        began = boot_time()
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(leader.hold(), 10)
        assert not leader.may_write()
        assert boot_time() - began < TIMING.lease_duration + 1


async def test_a_server_that_comes_back_in_time_keeps_the_leader(
    proxy: LossyProxy, namespace: str, tmp_path: Path
) -> None:
    errors: list[Exception] = []
    async with Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client:
        leader = elector(client, namespace, "first", errors)
        await leader.acquire()
        hold = asyncio.create_task(leader.hold())
        proxy.lose_answers()
        while not errors:  # noqa: ASYNC110 - the list is what the elector tells
            await asyncio.sleep(0.05)
        proxy.recover()
        await asyncio.sleep(TIMING.renew_deadline + 0.5)
        assert leader.may_write()
        assert not hold.done()
        hold.cancel()


async def test_an_acquisition_whose_answer_is_lost_leads_at_once(
    proxy: LossyProxy, namespace: str, tmp_path: Path
) -> None:
    async with Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client:
        leader = elector(client, namespace, "first")
        posts = itertools.count()
        proxy.loses = lambda method, _: method == "POST" and next(posts) == 1  # after the marker
        began = boot_time()
        await asyncio.wait_for(leader.acquire(), 10)
        assert proxy.lost
        assert boot_time() - began < TIMING.lease_duration
        assert leader.may_write()


async def test_an_acquisition_that_is_given_up_under_way_is_released(
    cluster: Cluster, proxy: LossyProxy, tmp_path: Path
) -> None:
    """As a process that is told to stop while it takes the lease does."""
    async with Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client:
        leader = elector(client, cluster.namespace, "first")
        arrived, posts = threading.Event(), itertools.count()

        def meet(asked: Asked, is_done: bool) -> None:  # noqa: FBT001 - as `Meets` has it
            if is_done and asked.method == "POST" and next(posts) == 1:  # after the marker
                proxy.partition(requests=False)
                arrived.set()

        proxy.meet = meet
        acquiring = asyncio.create_task(leader.acquire())
        await asyncio.to_thread(arrived.wait, 10)
        acquiring.cancel()
        await asyncio.gather(acquiring, return_exceptions=True)
        proxy.recover()
        await leader.release()
    assert not (await stored(cluster)).get("holderIdentity")


async def test_renewals_that_go_on_are_said(proxy: LossyProxy, namespace: str, tmp_path: Path) -> None:
    errors: list[Exception] = []
    renewed = asyncio.Event()
    async with Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client:
        leader = elector(client, namespace, "first", errors)
        await leader.acquire()
        proxy.loses = the_first(lambda method, _: method == "PATCH")
        hold = asyncio.create_task(leader.hold(lambda: renewed.set() if errors else None))
        await asyncio.wait_for(renewed.wait(), 5)
        hold.cancel()


async def test_a_standby_says_that_it_waits(cluster: Cluster, first: LeaderElector) -> None:
    await first.acquire()
    waits = asyncio.Event()
    second = asyncio.create_task(elector(cluster.client, cluster.namespace, "second").acquire(on_wait=waits.set))
    await asyncio.wait_for(waits.wait(), 5)
    second.cancel()


LEADER = """
import asyncio, sys
from pathlib import Path
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.leader_election.elector import LeaderElector
from scheduler.kube.leader_election.lease import Timing

async def main() -> None:
    async with Client.connect(Path(sys.argv[1])) as client:
        elector = LeaderElector(
            client, namespace=sys.argv[2], name="dovetail", identity="stopped",
            timing=Timing(lease_duration=3.0, renew_deadline=2.0, retry_period=0.3), on_error=lambda error: None,
        )
        await elector.acquire()
        hold = asyncio.create_task(elector.hold())
        while not hold.done():
            print(elector.may_write(), flush=True)
            await asyncio.sleep(0.02)
        print(type(hold.exception()).__name__, flush=True)

asyncio.run(main())
"""


async def test_a_leader_that_is_stopped_beyond_its_lease_does_not_write_when_it_goes_on(
    control_plane: ControlPlane, namespace: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEADER, str(control_plane.kubeconfig), namespace, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 30) == b"True\n"
        os.kill(process.pid, signal.SIGSTOP)
        await asyncio.sleep(TIMING.lease_duration + 0.2)
        os.kill(process.pid, signal.SIGCONT)
        said = (await asyncio.wait_for(process.stdout.read(), 20)).decode().split()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    # Lines that were written before the stop may still be in the pipe; after the first False there is no True.
    assert said[-1] == "LeadershipLost"
    assert "True" not in said[said.index("False") :]


def test_no_two_processes_have_one_identity() -> None:
    assert new_identity() != new_identity()


def test_the_clock_goes_on() -> None:
    before = boot_time()
    assert boot_time() >= before
