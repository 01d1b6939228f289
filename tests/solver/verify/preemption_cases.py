"""A plan with preemptions, and ways to break it; part of `test_broken_rules`."""

from collections.abc import Callable

from msgspec.structs import replace

from solver.domain import (
    Gang,
    GangId,
    Placement,
    Pod,
    Preemption,
    PreemptionRules,
    Reason,
    ReasonCode,
    Snapshot,
    Unplaced,
    Victim,
)
from solver.verify import Rule
from tests.solver.verify.cases import Case, Change
from tests.support import builders as b
from tests.support.preemption_cases import DEVICES, disruption_budget, holding, running


def preempted() -> Case:
    """A pod with a GPU and one without make room, the second for a gang of ours that they are no part of."""
    gone = running("gone", "n1", "held", cpu=1, labels={"app": "web"})
    crowd = running("crowd", "n2", cpu=60, priority=1, labels={"app": "web"})
    spare = running("spare", "n2", cpu=1)
    asked = b.claim("asked")
    high, wide = b.pod("high", "asked", cpu=1, priority=10), b.pod("wide", cpu=60, priority=5)
    allocation = b.claim_allocation(asked, b.result("gpu", "gpu-0", "n1"), node_name="n1")
    first = Preemption(placements=(b.placement(high, "n1"),), allocations=(allocation,), victims=(_victim(gone),))
    second = Preemption(placements=(b.placement(wide, "n2"),), victims=(_victim(crowd),))
    reasons = (Reason(code=ReasonCode.PREEMPTING, message="waits"),)
    unplaced = tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=reasons) for pod in (high, wide))
    snapshot = b.snapshot(
        b.node("n1", cpu=2),
        b.node("n2", cpu=64),
        b.gpu_slice("n1", count=1),
        b.gpu_class(),
        holding("held", "n1", "gpu-0", consumers=("gone",)),
        asked,
        gone,
        crowd,
        spare,
    )
    snapshot = replace(snapshot, budgets=(disruption_budget("web", 2, app="web"),))
    plan = replace(b.plan(), unplaced=unplaced, preemptions=(first, second))
    policy = replace(Case(snapshot, b.batch(), plan).policy, preemption=replace(DEVICES, minimum_run_seconds=1000))
    return Case(snapshot, b.batch(high, wide), plan, policy)


def _victim(pod: Pod) -> Victim:
    return Victim(pod=pod.id, pod_uid=pod.uid, node=pod.node_name, message="makes room")


def _rules(**changes: object) -> Change:
    def change(case: Case) -> Case:
        rules: PreemptionRules = replace(case.policy.preemption, **changes)
        return case._replace(policy=replace(case.policy, preemption=rules))

    return change


def _running(name: str, **changes: object) -> Change:
    def change(case: Case) -> Case:
        pods = tuple(replace(pod, **changes) if pod.id.name == name else pod for pod in case.snapshot.pods)
        return case._replace(snapshot=replace(case.snapshot, pods=pods))

    return change


def _waiting(name: str, **changes: object) -> Change:
    def change(case: Case) -> Case:
        pods = tuple(replace(pod, **changes) if pod.id.name == name else pod for pod in case.batch.pods)
        return case._replace(batch=replace(case.batch, pods=pods))

    return change


def _snapshot(change: Callable[[Snapshot], Snapshot]) -> Change:
    return lambda case: case._replace(snapshot=change(case.snapshot))


def _first(**changes: object) -> Change:
    def change(case: Case) -> Case:
        first, *rest = case.plan.preemptions
        return case._replace(plan=replace(case.plan, preemptions=(replace(first, **changes), *rest)))

    return change


def _twice(case: Case) -> Case:
    first, second = case.plan.preemptions
    again = replace(second, victims=(*second.victims, first.victims[0]))
    return case._replace(plan=replace(case.plan, preemptions=(first, again)))


def _placed_as_well(case: Case) -> Case:
    placement = Placement(pod=case.batch.pods[1].id, pod_uid=case.batch.pods[1].uid, node="n1")
    unplaced = case.plan.unplaced[:1]
    pods = tuple(replace(pod, requests=()) for pod in case.batch.pods)
    return case._replace(
        batch=replace(case.batch, pods=pods), plan=replace(case.plan, placements=(placement,), unplaced=unplaced)
    )


_GANG = GangId("default", "g", "dovetail.dev")
_STALE = replace(disruption_budget("web", 2, app="web"), is_stale=True)

BROKEN: tuple[tuple[str, Callable[[], Case], Change, set[Rule]], ...] = (
    ("preemption is off", preempted, _rules(is_enabled=False), {Rule.PREEMPTOR}),
    ("a pod that never preempts", preempted, _waiting("high", preemption_policy="Never"), {Rule.PREEMPTOR}),
    ("a pod that is placed gets victims as well", preempted, _placed_as_well, {Rule.PREEMPTOR}),
    ("a pod is evicted twice", preempted, _twice, {Rule.PREEMPTION_TWICE, Rule.VICTIM_UNKNOWN}),
    ("the victim is not there", preempted, _running("gone", uid="other"), {Rule.VICTIM_UNKNOWN, Rule.PREEMPTION_FIT}),
    (
        "the victim runs elsewhere",
        preempted,
        _running("gone", node_name="n2"),
        {Rule.VICTIM_UNKNOWN, Rule.PREEMPTION_FIT},
    ),
    ("the victim leaves already", preempted, _running("gone", is_deleting=True), {Rule.VICTIM_UNKNOWN}),
    ("the victim is as important", preempted, _running("gone", priority=10), {Rule.VICTIM_PRIORITY}),
    ("the victim is another scheduler's", preempted, _running("gone", scheduler_name="x"), {Rule.VICTIM_NOT_OWNED}),
    ("the victim is not to be evicted", preempted, _running("gone", is_preemptible=False), {Rule.VICTIM_PROTECTED}),
    ("the victim is too young", preempted, _rules(minimum_run_seconds=1001), {Rule.VICTIM_PROTECTED}),
    (
        "a part of a gang is evicted",
        preempted,
        lambda case: _running("spare", gang=_GANG)(_running("gone", gang=_GANG)(case)),
        {Rule.VICTIM_GANG},
    ),
    (
        "a gang is left with fewer than it needs",
        preempted,
        lambda case: _snapshot(lambda old: replace(old, gangs=(Gang(id=_GANG, min_count=2),)))(
            _running("spare", gang=_GANG)(_running("gone", gang=_GANG)(case))
        ),
        {Rule.VICTIM_GANG},
    ),
    (
        "a gang of which all go or none is evicted in part",
        preempted,
        lambda case: _snapshot(lambda old: replace(old, gangs=(Gang(id=_GANG, disruption="all"),)))(
            _running("spare", gang=_GANG)(_running("gone", gang=_GANG)(case))
        ),
        {Rule.VICTIM_GANG},
    ),
    (
        "a PodGroup is as important as the preemptor, and its pod is not",
        preempted,
        lambda case: _snapshot(lambda old: replace(old, gangs=(Gang(id=_GANG, priority=10),)))(
            _running("gone", gang=_GANG)(case)
        ),
        {Rule.VICTIM_PRIORITY},
    ),
    (
        "a budget is broken by one preemption",
        preempted,
        _snapshot(lambda old: replace(old, budgets=(disruption_budget("web", 0, app="web"),))),
        {Rule.VICTIM_BUDGET},
    ),
    (
        "a budget is broken by two preemptions together",
        preempted,
        _snapshot(lambda old: replace(old, budgets=(disruption_budget("web", 1, app="web"),))),
        {Rule.VICTIM_BUDGET},
    ),
    (
        "a budget is not up to date",
        preempted,
        _snapshot(lambda old: replace(old, budgets=(_STALE,))),
        {Rule.VICTIM_BUDGET},
    ),
    ("too many go", preempted, _rules(most_victims=1), {Rule.VICTIM_COUNT}),
    ("no pod goes", preempted, _first(victims=()), {Rule.PREEMPTION_FIT}),
    ("devices are not freed", preempted, _rules(frees_devices=False), {Rule.PREEMPTION_FIT}),
    (
        "the claim would stay allocated",
        preempted,
        _snapshot(lambda old: replace(old, claims=tuple(replace(each, finalizers=()) for each in old.claims))),
        {Rule.PREEMPTION_FIT},
    ),
    ("the pod needs more room", preempted, _waiting("high", requests=(("cpu", 3000),)), {Rule.PREEMPTION_FIT}),
)
