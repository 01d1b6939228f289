"""Gangs as the store composes them, of PodGroups and of what pods say; units of gangs, and their check."""

import msgspec
import pytest

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster, split_plan
from scheduler.cluster.gangs import GangProgress
from solver.domain import GangAnnotations, GangId, GangLevel, Pod, PodClaim, PodGroup, ReasonCode
from tests.support import builders as b
from tests.support.cluster_builders import gone, seen

OURS = frozenset({"dovetail"})
GANG = b.gang_id("g")
GROUP = GangId(b.NAMESPACE, "g", "scheduling.k8s.io")
COSCHEDULED = GangId(b.NAMESPACE, "g", "scheduling.x-k8s.io")
RACK = GangLevel(node_label="rack")


def noted(
    name: str, gang: GangId = GANG, minimum: int = 0, *levels: GangLevel, node: str = "", invalid: str = ""
) -> Pod:
    note = GangAnnotations(min_count=minimum, levels=levels, invalid=invalid) if minimum or levels or invalid else None
    return msgspec.structs.replace(b.pod(name, node_name=node), gang=gang, gang_note=note)


def group(minimum: int, gang: GangId = GROUP, **fields: object) -> Change:
    kind = Kind.POD_GROUPS if gang.source == GROUP.source else Kind.COSCHEDULING_GROUPS
    value = PodGroup(id=gang, uid="uid-g", min_count=minimum, **fields)  # type: ignore[arg-type] # a builder
    return Change(kind=kind, key=str(gang), value=value)


def prior(name: str, priority: int, policy: str = "PreemptLowerPriority") -> Pod:
    return msgspec.structs.replace(noted(name, GROUP), priority=priority, preemption_policy=policy)


def cluster(*objects: Pod | Change) -> Cluster:
    made = Cluster()
    for each in objects:
        made.apply(each if isinstance(each, Change) else seen(each))
    return made


def test_the_minimum_is_what_some_members_say_and_none_denies() -> None:
    gang = cluster(noted("a", GANG, 3), noted("b"), noted("c", GANG, 3)).with_gangs(b.batch(noted("a"))).gangs[0]
    assert (gang.min_count, gang.member_count, gang.invalid) == (3, 3, "")


def test_a_group_of_the_basic_policy_takes_the_minimum_of_its_pods() -> None:
    made = cluster(group(0), noted("a", GROUP, 2), noted("b", GROUP, 2))
    (gang,) = made.with_gangs(b.batch(noted("a", GROUP))).gangs
    assert (gang.min_count, gang.uid, gang.invalid) == (2, "uid-g", "")
    made.apply(seen(noted("b", GROUP, 3)))
    (gang,) = made.with_gangs(b.batch(noted("a", GROUP))).gangs
    assert "differs: 2 by pod a, 3 by pod b" in gang.invalid
    made.apply(seen(noted("a", GROUP)))
    made.apply(seen(noted("b", GROUP)))
    (gang,) = made.with_gangs(b.batch(noted("a", GROUP))).gangs
    assert (gang.min_count, gang.invalid) == (0, "")


def test_pods_of_the_priority_and_policy_of_their_group_agree() -> None:
    made = cluster(group(2, priority=5, preemption_policy="Never"), prior("a", 5, "Never"), prior("b", 5, "Never"))
    (gang,) = made.with_gangs(b.batch(prior("a", 5))).gangs
    assert (gang.invalid, gang.priority) == ("", 5)
    made.apply(seen(prior("b", 5)))
    assert (
        made.with_gangs(b.batch(prior("a", 5)))
        .gangs[0]
        .invalid.startswith("pod b has preemptionPolicy PreemptLowerPriority")
    )
    made.apply(group(2))
    made.apply(seen(prior("b", 9)))
    (gang,) = made.with_gangs(b.batch(prior("a", 5))).gangs
    assert (gang.invalid, gang.priority) == ("", None)


@pytest.mark.parametrize(
    ("objects", "gang", "said"),
    [
        ((noted("a", GANG, 3), noted("b", GANG, 4)), GANG, "differs: 3 by pod a, 4 by pod b"),
        ((group(2), noted("a", GROUP, 4)), GROUP, "differs: 2 by PodGroup g, 4 by pod a"),
        ((noted("a", GANG, 2, RACK), noted("b", GANG, 2, GangLevel(node_label="row"))), GANG, "topology"),
        ((noted("a", GANG, 2, invalid="no number"),), GANG, "pod a: no number"),
        ((group(2, invalid="no level"),), GROUP, "PodGroup g: no level"),
        (
            (group(2, priority=5), prior("a", 5), prior("b", 9)),
            GROUP,
            "pod b has priority 9 and PodGroup g has 5: write the same priorityClassName in both",
        ),
        (
            (group(2, preemption_policy="Never"), prior("a", 0, "Never"), prior("b", 0)),
            GROUP,
            "pod b has preemptionPolicy PreemptLowerPriority and PodGroup g has Never: write the same preemptionPolicy",
        ),
    ],
)
def test_what_disagrees_is_said(objects: tuple[Pod | Change, ...], gang: GangId, said: str) -> None:
    (found,) = cluster(*objects).with_gangs(b.batch(noted("x", gang))).gangs
    assert said in found.invalid
    assert not found.is_absent


def test_members_that_name_several_schedulers_are_no_gang_of_any_scheduler() -> None:
    other = msgspec.structs.replace(noted("b"), scheduler_name="other")
    (found,) = cluster(noted("a", GANG, 2), other).with_gangs(b.batch(noted("a"))).gangs
    assert "name several schedulers: dovetail, other" in found.invalid


@pytest.mark.parametrize(
    ("gang", "said"),
    [(GROUP, "PodGroup default/g, which"), (COSCHEDULED, "annotate the pods"), (GANG, "annotate its pods")],
)
def test_what_is_missing_is_said(gang: GangId, said: str) -> None:
    (found,) = cluster(noted("a", gang)).with_gangs(b.batch(noted("a", gang))).gangs
    assert found.is_absent
    assert said in found.invalid


def test_a_coscheduling_group_counts_where_there_is_one_and_the_annotation_where_not() -> None:
    with_group = cluster(group(2, COSCHEDULED), noted("a", COSCHEDULED))
    without = cluster(noted("a", COSCHEDULED, 5))
    assert [each.with_gangs(b.batch(noted("a", COSCHEDULED))).gangs[0].min_count for each in (with_group, without)] == [
        2,
        5,
    ]


def test_groups_of_one_name_and_two_kinds_are_two() -> None:
    both = cluster(group(2), group(3, COSCHEDULED))
    assert [each.min_count for each in both.with_gangs(b.batch(noted("a", GROUP), noted("b", COSCHEDULED))).gangs] == [
        2,
        3,
    ]


def test_levels_of_the_object_come_before_those_of_the_pods() -> None:
    (found,) = (
        cluster(group(2, levels=(RACK,)), noted("a", GROUP, 0, GangLevel(node_label="row")))
        .with_gangs(b.batch(noted("a", GROUP)))
        .gangs
    )
    assert [each.node_label for each in found.levels] == ["rack", "row"]


@pytest.mark.parametrize(
    ("objects", "standing"),
    [
        ((noted("a", GANG, 3), noted("b")), GangProgress(missing=1, is_partial=False)),
        ((noted("a", GANG, 3), noted("b"), noted("c")), GangProgress(missing=0, is_partial=False)),
        ((noted("a", GANG, 3, node="n"), noted("b"), noted("c")), GangProgress(missing=0, is_partial=True)),
        ((noted("a", GANG, 1, node="n"), noted("b")), GangProgress(missing=0, is_partial=False)),
        (
            (noted("a", GANG, 2), msgspec.structs.replace(noted("b"), scheduling_gates=("g",))),
            GangProgress(missing=1, is_partial=False),
        ),
        (
            (noted("a", GANG, 2), msgspec.structs.replace(noted("b"), is_deleting=True)),
            GangProgress(missing=1, is_partial=False),
        ),
    ],
    ids=["one is missing", "complete", "partly bound", "enough run", "a gate", "a deletion"],
)
def test_standing(objects: tuple[Pod, ...], standing: GangProgress) -> None:
    assert cluster(*objects).gang_progress(GANG, OURS) == standing


def test_a_gang_is_composed_anew_when_a_member_goes() -> None:
    made = cluster(noted("a", GANG, 3), noted("b", GANG, 4))
    assert made.with_gangs(b.batch(noted("a"))).gangs[0].invalid
    made.apply(Change(kind=Kind.PODS, key="default/b", value=None))
    assert made.with_gangs(b.batch(noted("a"))).gangs[0].invalid == ""


def test_pods_of_a_gang_are_one_unit_and_others_are_not() -> None:
    pods = (b.member(b.pod("a"), "g"), b.pod("x"), b.member(b.pod("b"), "g"), b.member(b.pod("c"), "basic"))
    gangs = [b.gang("g", 2), b.gang("basic", 0)]
    units = split_plan(b.plan(*(b.placement(each, "n1") for each in pods)), b.batch(*pods, gangs=gangs))
    assert [[each.pod.name for each in unit.placements] for unit in units] == [["a", "b"], ["x"], ["c"]]
    assert [[gang.id.name for gang in unit.gangs] for unit in units] == [["g"], [], []]


def test_a_claim_of_the_group_is_reserved_for_the_group_once_and_others_for_their_pods() -> None:
    shared, own = b.claim("shared"), b.claim("own")
    pods = tuple(
        msgspec.structs.replace(
            b.pod(name, PodClaim(entry="shared", claim=shared.id), PodClaim(entry="own", claim=own.id)), gang=GANG
        )
        for name in ("a", "b")
    )
    (unit,) = split_plan(
        b.plan(*(b.placement(each, "n1") for each in pods), b.claim_allocation(shared), b.claim_allocation(own)),
        b.batch(*pods, gangs=[b.gang("g", 2, claims=("shared",))]),
    )
    assert [(each.resource, each.name, each.uid) for each in unit.reservations()[shared.id]] == [
        ("podgroups", "g", "uid-default-g")
    ]
    assert [(each.resource, each.name) for each in unit.reservations()[own.id]] == [("pods", "a"), ("pods", "b")]


def test_a_unit_that_would_leave_a_gang_partial_is_refused() -> None:
    """It was planned while two others were about to be bound, which has come to nothing."""
    pods = [noted("a", GANG, 3), noted("b"), noted("c")]
    made = cluster(seen(b.node("n1")), *pods)
    gang = made.with_gangs(b.batch(*pods)).gangs
    (first,) = split_plan(b.plan(*(b.placement(each, "n1") for each in pods[:2])), b.batch(*pods[:2], gangs=gang))
    (last,) = split_plan(b.plan(b.placement(pods[2], "n1")), b.batch(pods[2], gangs=gang))
    made.assume(first)
    assert made.check(last) == ()
    made.forget(first)
    (reason,) = made.check(last)
    assert reason.code is ReasonCode.GANG_INCOMPLETE
    assert "would be partial: 0 of its pods run and 1 more are planned, 3 must run together" in reason.message


@pytest.mark.parametrize("others", [(), ("b", "c")], ids=["gone", "made anew"])
def test_a_unit_whose_member_goes_while_its_claims_are_written_is_not_to_be_bound(others: tuple[str, ...]) -> None:
    """More than the minimum may go on without one; a new pod of the same name is not the one that was planned."""
    pods = [noted("a", GANG, 2), noted("b"), noted("c")]
    made = cluster(seen(b.node("n1")), *pods)
    (unit,) = split_plan(
        b.plan(*(b.placement(each, "n1") for each in pods)), b.batch(*pods, gangs=made.with_gangs(b.batch(*pods)).gangs)
    )
    made.assume(unit)
    for name in ("c", "b"):
        assert made.check_gangs(unit) == ()
        made.apply(Change(kind=Kind.PODS, key=f"default/{name}", value=None))
        if name in others:
            made.apply(seen(msgspec.structs.replace(noted(name), uid=f"another-{name}")))
    (reason,) = made.check_gangs(unit)
    assert reason.code is ReasonCode.GANG_INCOMPLETE
    assert "would be partial: 0 of its pods run and 1 more are planned, 2 must run together" in reason.message


def test_a_snapshot_tells_of_the_gangs_that_run() -> None:
    made = cluster(group(2, disruption="all"), noted("a", GROUP, node="n1"), noted("b", GANG, 3))
    (gang,) = made.snapshot().gangs
    assert (gang.id, gang.min_count, gang.disruption) == (GROUP, 2, "all")

    made.apply(group(3))
    assert [(each.min_count, each.disruption) for each in made.snapshot().gangs] == [(3, "")]
    made.apply(seen(noted("b", GANG, 3, node="n1")))
    assert [each.id for each in made.snapshot().gangs] == sorted([GANG, GROUP])
    assert made.snapshot().gangs is made.snapshot().gangs
    made.apply(gone(noted("a", GROUP, node="n1")))
    assert [each.id for each in made.snapshot().gangs] == [GANG]
