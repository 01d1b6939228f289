"""What is kept of a gang with every change equals what its remaining members give."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.gang_members import SortedSet
from scheduler.cluster.gangs import GangIndex
from solver.domain import GangAnnotations, GangLevel, Pod, PodId
from tests.support import builders as b

GANG, OTHER = b.gang_id("g"), b.gang_id("h")
OURS = frozenset({"dovetail"})
LEVELS = [(), (GangLevel(node_label="rack"),), (GangLevel(node_label="row", is_required=False),)]

members = st.builds(
    lambda name, gang, note, node, priority, life, **fields: msgspec.structs.replace(
        b.pod(name, node_name=node, priority=priority, uid=f"{name}-{life}"), gang=gang, gang_note=note, **fields
    ),
    st.sampled_from("abcdef"),
    st.sampled_from([GANG, GANG, GANG, OTHER, None]),
    st.none()
    | st.builds(
        GangAnnotations,
        min_count=st.integers(0, 4),
        levels=st.sampled_from(LEVELS),
        invalid=st.sampled_from(["", "", "no number"]),
    ),
    st.sampled_from(["", "", "n1"]),
    st.integers(-1, 2),
    st.sampled_from([1, 2]),
    is_deleting=st.booleans(),
    is_terminal=st.sampled_from([False, False, True]),
    scheduler_name=st.sampled_from(["dovetail", "other", "third", "fourth"]),
    scheduling_gates=st.sampled_from([(), (), ("gate",)]),
    preemption_policy=st.sampled_from(["Never", "PreemptLowerPriority"]),
)
changes = st.lists(members | st.sampled_from("abcdef"), max_size=40)


@given(changes)
def test_a_gang_is_what_its_members_make_of_it_however_they_came(changes: list[Pod | str]) -> None:
    kept, there = GangIndex(), dict[PodId, Pod]()
    for each in changes:
        key = each.id if isinstance(each, Pod) else b.pod(each).id
        after = each if isinstance(each, Pod) else None
        kept.replace_pod(there.get(key), after)
        kept.gang(GANG)
        if after is None:
            there.pop(key, None)
        else:
            there[key] = after
    fresh = GangIndex()
    for pod in there.values():
        fresh.replace_pod(None, pod)

    for gang in (GANG, OTHER):
        assert kept.gang(gang) == fresh.gang(gang)
        assert kept.progress(gang, OURS) == fresh.progress(gang, OURS)
        assert kept.members(gang) == fresh.members(gang)
        found = [pod for pod in there.values() if pod.gang == gang and not pod.is_terminal]
        assert kept.gang(gang).member_count == sum(not pod.is_deleting for pod in found)
        assert kept.gang(gang).running_count == sum(bool(pod.node_name) and not pod.is_deleting for pod in found)
        assert kept.member_index(gang).uids == {pod.uid for pod in found}
        priorities = [priority for priority, _ in kept.member_index(gang).priorities.first(9)]
        assert priorities == sorted({pod.priority for pod in found})
        policies = [policy for policy, _ in kept.member_index(gang).policies.first(9)]
        assert policies == sorted({pod.preemption_policy for pod in found})
    assert kept.in_use() == fresh.in_use()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9))), st.integers(1, 4))
def test_the_first_of_a_set_are_its_first(steps: list[tuple[bool, int]], count: int) -> None:
    kept, there = SortedSet[int](), set[int]()
    for is_there, key in steps:
        (kept.add if is_there else kept.discard)(key)
        (there.add if is_there else there.discard)(key)
        assert kept.first(count) == sorted(there)[:count]
        assert len(kept) == len(there)


def test_what_left_a_set_is_not_kept() -> None:
    kept = SortedSet[int]()
    kept.add(-1)
    for key in range(10_000):
        kept.add(key)
        kept.discard(key)

    assert len(kept._heap) < 100  # noqa: SLF001 - what it holds is the subject
