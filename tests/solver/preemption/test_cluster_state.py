"""The cluster after a decision counts what is left as the cluster that is read anew does."""

from msgspec.structs import replace

from solver.domain import OwnedDevices, Snapshot
from solver.preemption.cluster_state import ClusterState
from solver.preemption.what_if import without
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support.preemption_cases import FINALIZER, running


def read(snapshot: Snapshot) -> ClusterState:
    cache = SolverCache()
    inventory = cache.inventory(snapshot, OwnedDevices())
    room, ledger = cache.room(inventory, snapshot.pods), cache.claims(inventory, snapshot).ledger
    return ClusterState.of(inventory, snapshot, room, ledger)


def test_a_shared_device_is_free_once_all_of_its_shares_are_given_back() -> None:
    card = b.resource_slice("n1", *(b.device(name, is_shareable=True) for name in ("a", "b")))
    pods = [running(name, "n1", name) for name in "pqr"]
    shares = [b.held(name, b.result("gpu", "a", "n1", share_id=b.share_id(n))) for n, name in enumerate("pqr")]
    claims = [replace(each, finalizers=(FINALIZER,)) for each in shares]
    before = b.snapshot(b.node("n1"), b.gpu_class(), card, pods, claims)
    state = read(before)
    assert state.free_devices.tolist() == [1]
    for count, free in ((1, 1), (2, 1), (3, 2)):
        after = without(before, [pod.id for pod in pods[:count]], frees_devices=True)
        assert state.changed(before, after).free_devices.tolist() == [free] == read(after).free_devices.tolist()
        assert state.changed(before, after).changed(after, before).free_devices.tolist() == [1]
