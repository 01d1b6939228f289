"""What a node has left while devices are taken there."""

from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.problem import Problem
from tests.support import builders as b
from tests.support import solver_problems as s


def problem(*, is_shareable: bool = True, is_admin: bool = False, at: str = "n1") -> Problem:
    """Two devices that draw three of four slices each, on a node or on the whole cluster."""
    memory = {"memory": b.capacity("80Gi")} if is_shareable else {}
    devices = [
        b.device(name, is_shareable=is_shareable, capacities=memory, consumes={"card": {"slices": 3}}) for name in "ab"
    ]
    scope = b.scope(at) if at else b.scope(all_nodes=True)
    card = b.resource_slice("card", *devices, at=scope, counter_sets={"card": {"slices": 4}})
    request = b.request("r", is_admin=is_admin, capacity={"memory": "30Gi"} if is_shareable else None)
    return s.problem(b.node("n1"), b.gpu_class(), card, b.claim("c", request), pods=[b.pod("p", "c")])


def most(found: Problem, ledger: NodeLedger) -> list[int]:
    """How many devices of each type are left for the request."""
    return [ledger.most(each, 0) for each in (*found.group(0).types, *found.layout.wide_types)]


def test_the_first_share_of_a_device_takes_its_counters_and_later_ones_do_not() -> None:
    found = problem()
    ledger, one = found.ledger(0), found.group(0).types[0]
    assert most(found, ledger) == [1, 1]
    counts = []
    for _ in range(2):
        ledger.take(one, 0, 1)
        counts.append((most(found, ledger), ledger.opened, ledger.is_fresh(one)))
    assert counts == [([1, 0], 1, False), ([0, 0], 1, False)]


def test_a_rollback_gives_back_all_that_was_taken() -> None:
    for at in ("n1", ""):
        found = problem(at=at)
        ledger = found.ledger(0)
        before = ledger.checkpoint()
        ledger.take((*found.group(0).types, *found.layout.wide_types)[0], 0, 1)
        assert ledger.checkpoint() != before
        ledger.rollback(before)
        assert (ledger.checkpoint(), most(found, ledger)) == (before, [1, 1])


def test_exclusive_devices_of_one_type_share_its_counters() -> None:
    found = problem(is_shareable=False)
    ledger, (kind,) = found.ledger(0), found.group(0).types
    assert (kind.total, most(found, ledger)) == (2, [1])
    ledger.take(kind, 0, 1)
    assert (most(found, ledger), ledger.opened, ledger.value) == ([0], 0, kind.value)


def test_admin_access_takes_nothing() -> None:
    found = problem(is_shareable=False, is_admin=True)
    ledger, (kind,) = found.ledger(0), found.group(0).types
    before = ledger.checkpoint()
    ledger.take(kind, 0, 2)
    assert (ledger.checkpoint(), most(found, ledger)) == (before, [2])
