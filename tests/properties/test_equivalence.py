"""Pods of one class are interchangeable, and so are nodes of one class: in a valid plan two of them change places."""

from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from solver import greedy
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimId,
    Plan,
    Pod,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    SearchParams,
    SearchReport,
    SearchStage,
    SearchStatus,
    Snapshot,
    Unplaced,
)
from solver.extract import extract
from solver.model.objective import best_of, evaluate
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import columns, stages
from solver.search.scoring import without_scores
from solver.solution import Solution
from solver.verify import check
from tests.support.neighbour_situations import Neighbourhood, neighbourhoods
from tests.support.strategies import ALL_FEATURES, Feature, Situation, situations

PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], max_examples=80)
TWIN = "-twin"
WAITS = Reason(code=ReasonCode.BUDGET, message="not placed")


FIELDS = (
    "requests",
    "priority",
    "tolerations",
    "node_selector",
    "required_affinity",
    "labels",
    "affinity",
    "spread",
    "anti_affinity",
    "host_ports",
)


def pods_twice(snapshot: Snapshot, batch: Batch, data: st.DataObject) -> tuple[Snapshot, Batch]:
    """Add a pod for each, with claims of its own where no other pod uses them; some differ in one field of the spec."""
    field, source = data.draw(st.sampled_from(("id", *FIELDS))), data.draw(st.sampled_from(batch.pods))
    users = Counter(claim for pod in batch.pods for claim in pod.claim_ids)
    own = {each.id: each for each in snapshot.claims if users[each.id] == 1 and each.allocation is None}
    claims = [structs.replace(each, id=_twin(each.id), uid=each.uid + TWIN) for each in own.values()]
    pods = [pod for each in batch.pods for pod in (each, _twin_pod(each, own))]
    if field != "id":
        pods[1::2] = [structs.replace(each, **{field: getattr(source, field)}) for each in pods[1::2]]
    every = sorted((*snapshot.claims, *claims), key=lambda claim: claim.id)
    return structs.replace(snapshot, claims=tuple(every)), structs.replace(batch, pods=tuple(pods))


def _twin(claim_id: ClaimId) -> ClaimId:
    return claim_id._replace(name=claim_id.name + TWIN)


def _twin_pod(pod: Pod, own: dict[ClaimId, Claim]) -> Pod:
    entries = (structs.replace(each, claim=_twin(each.claim)) if each.claim in own else each for each in pod.claims)
    name = PodId(pod.id.namespace, pod.id.name + TWIN)
    return structs.replace(pod, id=name, uid=pod.uid + TWIN, claims=tuple(entries))


def nodes_twice(snapshot: Snapshot, suffix: str = TWIN) -> Snapshot:
    """Add a node like each, with devices of its own that are like those of the other."""
    nodes = [structs.replace(node, name=node.name + suffix, uid=node.uid + suffix) for node in snapshot.nodes]
    slices = [
        structs.replace(
            each,
            name=each.name + suffix,
            pool=each.pool + suffix,
            scope=structs.replace(each.scope, node_name=each.scope.node_name + suffix),
        )
        for each in snapshot.slices
        if each.scope.node_name
    ]
    return structs.replace(snapshot, nodes=(*snapshot.nodes, *nodes), slices=(*snapshot.slices, *slices))


def plan_of(problem: Problem, solution: Solution) -> Plan:
    found = extract(problem, solution)
    placed = {each.pod for each in found.placements}
    waiting = (pod for pod in problem.batch.pods if pod.id not in placed)
    return Plan(
        placements=found.placements,
        allocations=found.allocations,
        unplaced=tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(WAITS,)) for pod in waiting),
        report=SearchReport(status=SearchStatus.FEASIBLE, stages=()),
    )


def solved(snapshot: Snapshot, batch: Batch) -> tuple[Problem, Solution]:
    problem = prepare(snapshot, batch, Policy(), SolverCache())
    solution = best_of(problem, greedy.candidates(problem))
    assert check(snapshot, batch, plan_of(problem, solution)) == ()
    return problem, solution


def priorities(plan: Plan, batch: Batch) -> Counter[int]:
    """How many pods of each priority are placed."""
    priority = {pod.id: pod.priority for pod in batch.pods}
    return Counter(priority[each.pod] for each in plan.placements)


def reversed_members(problem: Problem) -> Problem:
    """Serve the last pod of each class first: every pod changes places with another of its class."""
    classes = [
        replace(each, members=each.members[::-1], sources=each.sources[::-1], specials=each.specials[::-1])
        for each in problem.classes
    ]
    return replace(problem, classes=classes)


def assert_pods_are_interchangeable(snapshot: Snapshot, batch: Batch, data: st.DataObject) -> None:
    assume(batch.pods)
    problem, solution = solved(*pods_twice(snapshot, batch, data))
    assume(any(each.size > 1 for each in problem.classes))
    other = reversed_members(problem)

    plan = plan_of(other, solution)
    assert check(problem.snapshot, problem.batch, plan) == ()
    assert evaluate(other, solution) == evaluate(problem, solution)
    assert priorities(plan, problem.batch) == priorities(plan_of(problem, solution), problem.batch)


@PROPERTY
@given(situation=situations(most_pods=3), data=st.data())
def test_pods_of_one_class_are_interchangeable(situation: Situation, data: st.DataObject) -> None:
    assert_pods_are_interchangeable(*situation, data)


@PROPERTY
@given(case=neighbourhoods(with_devices=True, most_pods=3), data=st.data())
def test_pods_of_one_class_are_interchangeable_for_rules_between_pods(case: Neighbourhood, data: st.DataObject) -> None:
    assert_pods_are_interchangeable(*case, data)


@PROPERTY
@given(situation=situations(ALL_FEATURES - {Feature.SHARED_CLAIMS, Feature.USAGE, Feature.ALLOCATED_CLAIMS}))
def test_nodes_of_one_class_are_interchangeable(situation: Situation) -> None:
    problem, solution = solved(nodes_twice(situation.snapshot), situation.batch)
    problem = without_scores(problem)  # column generation never sees that level
    assume(not any(problem.is_coupled(each) for each in problem.classes))
    every = list(range(problem.node_count))
    found = [each.nodes for each in columns.node_classes(problem, every, len(every)) or [] if len(each.nodes) > 1]
    assume(found)
    partner = {node: other for nodes in found for node, other in zip(nodes, nodes[::-1], strict=True)}
    moved = Solution([each._replace(node=partner.get(each.node, each.node)) for each in solution.choices])

    assert check(problem.snapshot, problem.batch, plan_of(problem, moved)) == ()
    assert evaluate(problem, moved) == evaluate(problem, solution)


@PROPERTY
@given(situation=situations(ALL_FEATURES - {Feature.SHARED_CLAIMS}))
def test_nothing_is_lost_with_the_equal_nodes_that_the_exact_model_leaves_out(situation: Situation) -> None:
    snapshot = nodes_twice(nodes_twice(situation.snapshot), "-copy")
    problem = without_scores(prepare(snapshot, situation.batch, Policy(), SolverCache()))
    every, few = (
        replace(problem, params=SearchParams(without=frozenset(without), tiny_terms=1 << 40))
        for without in ({SearchStage.NODE_SYMMETRY}, set())
    )
    budget = Budget(seconds=3600.0, deterministic_seconds=20.0)

    whole, reduced = (stages.search(each, Solution(), budget) for each in (every, few))

    assert evaluate(problem, whole.solution) == evaluate(problem, reduced.solution)
    assert whole.is_proven
    assert reduced.is_proven
