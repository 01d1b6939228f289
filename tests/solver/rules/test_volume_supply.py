"""The index finds the same volumes for a claim as a test of each volume."""

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import (
    LabelRequirement,
    LabelSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Policy,
    Snapshot,
    label_selectors,
)
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from solver.rules.node_fit.label_index import LabelIndex
from solver.rules.volumes import batch as volume_limits
from solver.rules.volumes import values as volumes
from solver.rules.volumes.topology import ReachableNodes
from solver.rules.volumes.unbound_volumes import UnboundVolumes
from tests.support import builders as b
from tests.support import volume_builders as v

NODES = ("n0", "n1", "n2")
INDEX = LabelIndex([{v.HOST: name} for name in NODES], NODES)
SIZES, MODES = ("1Gi", "5Gi", "10Gi"), ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod")
modes = st.lists(st.sampled_from(MODES), min_size=1, max_size=2, unique=True)
classes = st.sampled_from((v.LOCAL, v.DYNAMIC))
requirements = st.builds(
    lambda key, how, values: LabelRequirement(key=key, operator=how, values=tuple(values)),
    st.sampled_from(("disk", "tier", "absent")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(("ssd", "hdd")), max_size=2),
)
selectors = st.none() | st.lists(requirements, max_size=2).map(lambda rows: LabelSelector(requirements=tuple(rows)))


@st.composite
def shelves(draw: st.DrawFn) -> list[PersistentVolume]:
    return [
        replace(
            v.volume(
                f"pv{number}",
                draw(st.sampled_from(SIZES)),
                nodes=draw(st.lists(st.sampled_from((*NODES, "gone")), max_size=2, unique=True)),
                storage=draw(classes),
                labels=draw(st.dictionaries(st.sampled_from(("disk", "tier")), st.sampled_from(("ssd", "hdd")))),
                modes=draw(modes),
            ),
            is_deleting=draw(st.integers(0, 4)) == 0,
            mode=draw(st.sampled_from(("Filesystem", "Block"))),
        )
        for number in range(draw(st.integers(0, 8)))
    ]


claims = st.builds(
    lambda size, storage, found, selector: replace(
        v.volume_claim("c", size, storage=storage, modes=found), selector=selector
    ),
    st.sampled_from(SIZES),
    classes,
    modes,
    selectors,
)


@given(free=shelves(), claim=claims)
def test_the_volumes_that_fit_are_those_that_fit_one_by_one(
    free: list[PersistentVolume], claim: PersistentVolumeClaim
) -> None:
    shelf = UnboundVolumes.of(free, (), ReachableNodes(INDEX))
    members = shelf.fitting(claim)
    expected = [each for each in free if volumes.volume_fits(each, claim)]
    assert shelf.listed(members) == sorted(expected, key=lambda each: (each.capacity, each.name))
    reached = [[each for each in shelf.listed(members) if _reaches(each, name)] for name in NODES]
    assert [shelf.listed(shelf.on(members, node)) for node in range(len(NODES))] == reached
    assert shelf.counts(members).tolist() == [len(each) for each in reached]


def _reaches(volume: PersistentVolume, name: str) -> bool:
    found = volume.node_affinity
    return found is None or any(volumes.allows(term, {v.HOST: name}) for term in found.terms)


def scene(pods: int, count: int, selector: LabelSelector | None = None) -> tuple[Snapshot, list[Pod]]:
    """Pods with many claims, each with a selector of its own, over many volumes that differ by label."""
    free = [v.volume(f"pv{n}", nodes=[f"n{n % 3}"], labels={"disk": f"d{n}"}) for n in range(90)]
    made, users = [], []
    for pod in range(pods):
        names = [f"c{pod}-{number}" for number in range(count)]
        for number, name in enumerate(names):
            own = (LabelRequirement(key="disk", operator="NotIn", values=(f"d{pod * count + number}",)),)
            made.append(replace(v.volume_claim(name), selector=selector or LabelSelector(requirements=own)))
        users.append(v.using(b.pod(f"p{pod}"), *names))
    base = b.snapshot(*(b.node(name) for name in NODES))
    return v.with_storage(base, v.storage_class(), *free, *made), users


def test_selectors_of_claims_are_not_put_to_every_volume() -> None:
    snapshot, pods = scene(6, 10)
    with mock.patch.object(label_selectors, "is_met", side_effect=label_selectors.is_met) as compared:
        problem = prepare(snapshot, b.batch(*pods), Policy(), SolverCache())
    assert len(problem.classes) == len(pods)
    assert compared.call_count == 0


def test_claims_that_can_get_the_same_volumes_are_of_one_shape() -> None:
    snapshot, pods = scene(3, 4)
    rows = [LabelRequirement(key=f"none-{number}", operator="DoesNotExist") for number in range(12)]
    alike = [
        replace(each, selector=LabelSelector(requirements=(row,)))
        for each, row in zip(snapshot.volume_claims, rows, strict=True)
    ]
    problem = prepare(replace(snapshot, volume_claims=tuple(alike)), b.batch(*pods), Policy(), SolverCache())
    assert problem.volume_index is not None
    assert len(problem.volume_index.supply.supplies) == 1
    assert len(problem.classes) == 1
    assert np.array_equal(problem.volume_index.supply.supplies[0].counts, [30, 30, 30])


def test_there_are_no_more_limits_than_a_few_however_many_shapes_there_are() -> None:
    snapshot, pods = scene(80, 1)
    nested = [
        LabelSelector(
            requirements=(LabelRequirement(key="disk", operator="In", values=tuple(f"d{n}" for n in range(k))),)
        )
        for k in range(1, 81)
    ]
    made = tuple(replace(each, selector=own) for each, own in zip(snapshot.volume_claims, nested, strict=True))
    problem = prepare(replace(snapshot, volume_claims=made), b.batch(*pods), Policy(), SolverCache())
    assert problem.volume_index is not None
    assert len(problem.volume_index.supply.supplies) == len(pods)
    found = [each for each in problem.rules.limits if each.rule == "volumes of a node"]
    assert 0 < len(found) <= volume_limits.MOST_SHAPES
