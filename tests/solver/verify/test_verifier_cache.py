"""A check with a cache answers as the check from scratch does, whatever snapshots came before."""

from collections.abc import Callable, Iterator
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import verify
from solver.domain import Placement, Pod, Snapshot
from solver.verify import VerifierCache
from solver.verify.snapshot_index import ClaimIndex
from tests.solver.verify import cases as c
from tests.solver.verify import gang_cases, inter_pod_cases, volume_cases
from tests.solver.verify.both_ways import check
from tests.solver.verify.test_accepted_plans import ACCEPTED
from tests.solver.verify.test_broken_rules import BROKEN, ELSEWHERE
from tests.support import builders as b
from tests.support.neighbour_builders import HOST, neighbour, port, term
from tests.support.neighbour_situations import Neighbourhood, neighbourhoods

Row = tuple[str, Callable[[], c.Case], c.Change]


def web(name: str) -> Pod:
    """A running pod on n1 that wants no other of its kind there, with a port of its own address."""
    return neighbour(
        name, app="web", on="n1", anti_affinity=[term(HOST, app="web")], ports=[port(80, f"10.0.0.{name[-1]}")]
    )


def second_reader(case: c.Case) -> c.Case:
    """Another pod uses the disk of the running one, and to write."""
    (running,) = (pod for pod in case.snapshot.pods if pod.id.name == "running")
    volumes = tuple(replace(each, disk=replace(each.disk, is_read_only=False)) for each in running.volumes if each.disk)
    pods = (replace(running, id=b.pod("another").id, uid="another", volumes=volumes), replace(running, volumes=volumes))
    return case._replace(snapshot=replace(case.snapshot, pods=pods))


SEVERAL: tuple[Row, ...] = (
    (
        "pods on the pod's node with its port and its label",
        inter_pod_cases.company,
        c.added(web("old-1"), web("old-2")),
    ),
    (
        "holders of a device",
        c.whole_cards,
        c.both(c.added(b.held("another", b.result("gpu", "gpu-2", "n1"))), c.moved(0, "gpu-2")),
    ),
    (
        "slices of a pool that cannot be read",
        c.whole_cards,
        c.added(*(replace(b.resource_slice("n1", name=name), invalid="no driver") for name in ("first", "second"))),
    ),
    (
        "incomplete pools",
        c.choices,
        c.added(*(b.resource_slice("n1", b.device("x"), driver=f"{n}.example.com", slice_count=n) for n in (2, 3))),
    ),
    ("readers of a disk", volume_cases.volumes, second_reader),
)
"""What breaks a rule more than once: a message names them in the order of their keys."""

ROWS: tuple[Row, ...] = (
    *SEVERAL,
    *((name, case, change) for name, case, change, _ in (*BROKEN, *ELSEWHERE)),
    *ACCEPTED,
    *gang_cases.VALID,
    *((name, inter_pod_cases.company, change) for name, change in inter_pod_cases.KEPT),
    *((name, volume_cases.volumes, change) for name, change in volume_cases.ACCEPTED),
)
KINDS = tuple(name for name in Snapshot.__struct_fields__ if name not in {"leaving", "draws"})
"""The kinds of objects in a snapshot."""


def one_fewer(snapshot: Snapshot) -> Iterator[Snapshot]:
    """The snapshot without each of its objects, one after the other."""
    for kind in KINDS:
        objects = getattr(snapshot, kind)
        for index in range(len(objects)):
            yield replace(snapshot, **{kind: objects[:index] + objects[index + 1 :]})


@pytest.mark.parametrize(("case", "change"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_every_object_may_leave_and_return(case: Callable[[], c.Case], change: c.Change) -> None:
    snapshot, batch, plan, policy = change(case())
    cache = VerifierCache()
    for fewer in one_fewer(snapshot):
        check(snapshot, batch, plan, policy, cache)
        check(fewer, batch, plan, policy, cache)


def part(snapshot: Snapshot, chance: Random) -> Snapshot:
    """Some objects of each kind, some of them as others that are equal, as if they were decoded again."""

    def some(objects: tuple[msgspec.Struct, ...]) -> tuple[msgspec.Struct, ...]:
        kept = (each for each in objects if chance.random() < 0.8)
        return tuple(each if chance.random() < 0.8 else replace(each) for each in kept)

    return replace(snapshot, **{kind: some(getattr(snapshot, kind)) for kind in KINDS})


STEPS = st.lists(st.randoms(use_true_random=True), min_size=2, max_size=5)


@given(rows=st.lists(st.sampled_from(ROWS), min_size=1, max_size=3), steps=STEPS)
def test_snapshots_may_go_back_and_forth_between_cases(rows: list[Row], steps: list[Random]) -> None:
    made, cache = [change(case()) for _, case, change in rows], VerifierCache()
    for chance in steps:
        snapshot, batch, plan, policy = chance.choice(made)
        check(part(snapshot, chance), batch, plan, policy, cache)


@given(case=neighbourhoods(), steps=STEPS)
def test_rules_between_pods_are_kept_on_every_snapshot(case: Neighbourhood, steps: list[Random]) -> None:
    names, cache = [node.name for node in case.snapshot.nodes], VerifierCache()
    for chance in steps:
        placed = (Placement(pod=pod.id, pod_uid=pod.uid, node=chance.choice(names)) for pod in case.batch.pods)
        check(part(case.snapshot, chance), case.batch, b.plan(*placed), cache=cache)


def test_an_index_that_was_updated_in_part_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, batch, plan, policy = c.whole_cards()
    cache = VerifierCache()
    check(snapshot, batch, plan, policy, cache)

    def fail(self: ClaimIndex, *_: object, **__: object) -> None:
        self.by_id.clear()
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(ClaimIndex, "_set", fail)
        with pytest.raises(MemoryError):
            verify.check(replace(snapshot, claims=()), batch, plan, policy, cache)
    assert check(snapshot, batch, plan, policy, cache) == ()


@pytest.mark.parametrize("case", [inter_pod_cases.company, volume_cases.volumes, c.whole_cards])
def test_an_index_keeps_nothing_of_what_is_gone(case: Callable[[], c.Case]) -> None:
    cache = VerifierCache()
    check(*case(), cache)
    check(Snapshot(), b.batch(), b.plan(), cache=cache)
    index = cache.take()
    assert contents(index.labels) + contents(index.storage) + contents(index) == []


def contents(index: object) -> list[object]:
    """The keys and objects in an index and in the indexes that it consists of."""
    found: list[object] = []
    for each in vars(index).values():
        if type(each).__module__.startswith("solver.verify"):
            found += contents(each)
        elif isinstance(each, dict | tuple | set):
            found += each
    return found
