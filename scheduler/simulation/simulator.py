"""
Decides a case, new or saved, as the scheduler would, and checks the plan.

With nominated pods a batch is decided in parts, as in the scheduler's cycle. Each part sees the cluster after the parts
before it: their placements count as running, their preemptors as nominated, and their victims as leaving.
"""

import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from scheduler import private_file
from scheduler.cluster import split_by_held_room
from scheduler.settings import Settings
from scheduler.simulation import claim_templates
from scheduler.simulation.manifests.documents import ManifestProblem
from scheduler.simulation.workloads.creation_order import CreationOrder, MadeAfter
from scheduler.worker import recording
from scheduler.worker.checked_plan import all_failed, decide
from scheduler.worker.recording import Record
from solver import SolverCache, after_plan, explain_placed, explain_pod, is_freed, reserve_for_nominated, solve
from solver.domain import (
    Allocation,
    Batch,
    Budget,
    ClaimId,
    LevelReport,
    NodeReservation,
    Placement,
    Plan,
    Pod,
    PodDiagnosis,
    PodId,
    Policy,
    Preemption,
    SearchReport,
    SearchStatus,
    Snapshot,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationCase:
    """
    A snapshot and the waiting pods, in queue order; `own` are those of the manifests.

    `made_after` and `not_made` are as in `Record`. `problems` are manifests that the API server would refuse;
    `warnings` do not affect the exit status, and `preferences` are those about the pods that a plan is asked for.
    `left_out` are pods that wait for another scheduler.
    """

    snapshot: Snapshot
    batch: Batch
    own: frozenset[PodId] = frozenset()
    made_after: MadeAfter = ()
    not_made: tuple[tuple[PodId, str], ...] = ()
    problems: tuple[ManifestProblem, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    preferences: tuple[str, ...] = ()
    left_out: tuple[Pod, ...] = ()


_WORST_LAST = (SearchStatus.OPTIMAL, SearchStatus.FEASIBLE, SearchStatus.FALLBACK)


class SubBatch(NamedTuple):
    """Pods that are decided together, and the snapshot for them."""

    snapshot: Snapshot
    batch: Batch


def _parts(asked: Record, decide: Callable[[SubBatch], Plan]) -> Iterator[tuple[SubBatch, Plan]]:
    """Decide part after part; without nominated pods, and pods that are made one by one, the batch is one part."""
    snapshot, order = asked.snapshot, CreationOrder(asked.batch, asked.made_after, dict(asked.not_made))
    for wave in order.waves():
        for each in split_by_held_room(wave, snapshot.nominated, snapshot.holds):
            part = SubBatch(snapshot, msgspec.structs.replace(each, gangs=each.gangs_of(each.pods)))
            plan = decide(part)
            yield part, plan
            order.note(plan.placements)
            snapshot = after_plan(snapshot, each, plan)
    held, plan = order.held()
    if held.pods:
        yield SubBatch(snapshot, held), plan


def after_others(asked: Record, own: Collection[PodId], cache: SolverCache | None = None) -> Record:
    """Return the case of some of the waiting pods, after those of the same or a higher priority are decided."""
    cache = cache or SolverCache()
    pods = tuple(pod for pod in asked.batch.pods if pod.id in own)
    least = min((pod.priority for pod in pods), default=0)
    others = tuple(pod for pod in asked.batch.pods if pod.id not in own and pod.priority >= least)
    snapshot = asked.snapshot
    if others:
        first = msgspec.structs.replace(asked, batch=_of_pods(asked.batch, others))
        for part, plan in _parts(first, lambda part: _decided(asked, part, [], cache)):
            snapshot = after_plan(part.snapshot, part.batch, plan)
    return msgspec.structs.replace(asked, snapshot=snapshot, batch=_of_pods(asked.batch, pods), stopped=(), left_out=())


def _of_pods(batch: Batch, pods: tuple[Pod, ...]) -> Batch:
    return msgspec.structs.replace(batch, pods=pods, gangs=batch.gangs_of(pods))


def after_placed(asked: Record, plan: Plan) -> Record:
    """Return the case of the pods that a plan does not place, in the cluster after the plan."""
    placed = {each.pod for each in plan.placements}
    return msgspec.structs.replace(
        asked, snapshot=after_plan(asked.snapshot, asked.batch, plan), batch=asked.batch.without(placed)
    )


def _joined(batch: Batch, plans: Sequence[Plan]) -> Plan:
    """Join the plans of the parts, in the order of the batch."""
    if len(plans) == 1:
        return plans[0]
    order = {pod.id: position for position, pod in enumerate(batch.pods)}
    return Plan(
        placements=tuple(
            sorted((each for plan in plans for each in plan.placements), key=lambda each: order[each.pod])
        ),
        allocations=tuple(each for plan in plans for each in plan.allocations),
        unplaced=tuple(sorted((each for plan in plans for each in plan.unplaced), key=lambda each: order[each.pod])),
        preemptions=tuple(each for plan in plans for each in plan.preemptions),
        node_reservations=tuple(dict.fromkeys(each for plan in plans for each in plan.node_reservations)),
        report=_report([plan.report for plan in plans]),
    )


def _report(reports: Sequence[SearchReport]) -> SearchReport:
    """Sum the reports; a level is proven if it is proven in each part."""
    levels: dict[str, LevelReport] = {}
    for each in (level for report in reports for level in report.levels):
        known = levels.get(each.name)
        levels[each.name] = each if known is None else _sum(known, each)
    return SearchReport(
        status=max((each.status for each in reports), key=_WORST_LAST.index),
        levels=tuple(levels.values()),
        stages=tuple(dict.fromkeys(stage for each in reports for stage in each.stages)),
        variable_count=sum(each.variable_count for each in reports),
        row_count=sum(each.row_count for each in reports),
        deterministic_seconds=sum(each.deterministic_seconds for each in reports),
        node_count=max((each.node_count for each in reports if each.node_count is not None), default=None),
    )


def _sum(one: LevelReport, other: LevelReport) -> LevelReport:
    return LevelReport(
        name=one.name,
        value=one.value + other.value,
        bound=one.bound + other.bound,
        proven=one.proven and other.proven,
    )


_FAILED: Final = "the solver failed on the pods that wait"
_SECONDS: Final = 600.0
"""A safety net: deterministic time ends the search, so that a replay ends at the same point."""


class SavedError(ValueError):
    """A saved case cannot be used; the message names the file and the problem."""


class OtherPods(NamedTuple):
    """Waiting pods that were decided too: where some are placed, and how many go on waiting."""

    placed: tuple[Placement, ...]
    waiting_count: int


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """
    A plan, the allocations of all claims (existing and new), and the defects that occurred.

    `freed` has for each preemption the claims that are deallocated once its victims are gone. Where the question is
    about some of the waiting pods, `others` is what the plan does with the rest.
    """

    plan: Plan
    allocations: dict[ClaimId, Allocation]
    defects: tuple[str, ...] = ()
    freed: tuple[tuple[ClaimId, ...], ...] = ()
    others: OtherPods | None = None

    def about(self, own: Collection[PodId]) -> "SimulationResult":
        """Keep what the plan does for some pods, and of the others those that it places where one of these waits."""
        plan = self.plan
        placements = tuple(each for each in plan.placements if each.pod in own)
        unplaced = tuple(each for each in plan.unplaced if each.pod in own)
        claims = {claim for each in placements for claim in each.claims}
        pairs = zip(plan.preemptions, self.freed, strict=True)
        protected = [pair for pair in pairs if any(each.pod in own for each in pair[0].placements)]
        return replace(
            self,
            plan=msgspec.structs.replace(
                plan,
                placements=placements,
                unplaced=unplaced,
                allocations=tuple(each for each in plan.allocations if each.claim in claims),
                preemptions=tuple(preemption for preemption, _ in protected),
            ),
            freed=tuple(freed for _, freed in protected),
            others=OtherPods(
                placed=tuple(each for each in plan.placements if each.pod not in own) if unplaced else (),
                waiting_count=len(plan.unplaced) - len(unplaced),
            ),
        )


def recorded(
    case: SimulationCase, settings: Settings, scheduler_name: str, reservations: tuple[NodeReservation, ...] = ()
) -> Record:
    """Return a case with everything else that determines the plan; nodes may be reserved for pods that starve."""
    starving = {uid for each in reservations for uid in each.uids}
    overdue = tuple(pod.id for pod in case.batch.pods if pod.uid in starving)
    return Record(
        cause=f"simulated for scheduler {scheduler_name}",
        snapshot=case.snapshot,
        batch=msgspec.structs.replace(case.batch, overdue=overdue, node_reservations=reservations),
        made_after=case.made_after,
        not_made=case.not_made,
        policy=_at_present(settings.policy(scheduler_name)),
        seconds=_SECONDS,
        deterministic_seconds=settings.solver.deterministic_seconds,
        workers=settings.solver.workers,
    )


def _at_present(policy: Policy) -> Policy:
    """
    Set the present time, from which the running time of pods is computed; it is saved with the case.

    Which pods are evicted is answered as if `preemption.delaySeconds` were over.
    """
    rules = msgspec.structs.replace(policy.preemption, now=int(time.time()), delay_seconds=0)
    return msgspec.structs.replace(policy, preemption=rules)


def answer(asked: Record, cache: SolverCache | None = None) -> SimulationResult:
    """
    Solve and check. Never raises: after a defect of the solver the plan places no pod and `defects` says why.

    `cache` is that of the solves of one question: what they read of the cluster is the same.
    """
    started, cache = time.monotonic(), cache or SolverCache()
    defects: list[str] = []
    found = _parts(asked, lambda part: _decided(asked, part, defects, cache))
    plan = _joined(asked.batch, [plan for _, plan in found])
    report = msgspec.structs.replace(plan.report, seconds=round(time.monotonic() - started, 3))
    allocations = {claim.id: claim.allocation for claim in asked.snapshot.claims if claim.allocation is not None} | {
        each.claim: each.allocation for each in plan.allocations
    }
    freed = tuple(_freed(asked.snapshot, plan.preemptions))
    return SimulationResult(msgspec.structs.replace(plan, report=report), allocations, tuple(defects), freed)


def _freed(snapshot: Snapshot, preemptions: Sequence[Preemption]) -> Iterator[tuple[ClaimId, ...]]:
    """Return for each preemption the claims that lose their last consumer and are deallocated."""
    held = [claim for claim in snapshot.claims if claim.allocation is not None and claim.reserved_for]
    leaving = set(snapshot.leaving)
    gone = {pod.uid for pod in snapshot.pods if pod.is_deleting or pod.id in leaving}
    for preemption in preemptions:
        going = {victim.pod_uid for victim in preemption.victims}
        touched = [claim for claim in held if any(each.uid in going for each in claim.reserved_for)]
        gone |= going
        yield tuple(claim.id for claim in touched if is_freed(claim, gone))


def _decided(asked: Record, part: SubBatch, defects: list[str], cache: SolverCache) -> Plan:
    """Decide a part; add what went wrong to `defects`."""
    try:
        solve_it = partial(solve, cache=cache)
        plan, violations = decide(part.snapshot, part.batch, asked.policy, _budget(asked), solve_it)
        defects += (f"the plan broke a rule: {each.rule} ({each.subject}): {each.message}" for each in violations)
    except Exception as error:  # noqa: BLE001 - whatever the solver raises is a defect to report
        plan = None
        place = traceback.extract_tb(error.__traceback__)[-1]
        defects.append(
            f"the solver failed at {Path(place.filename).name}:{place.lineno}: {type(error).__name__}: {error}"
        )
    return plan if plan is not None else all_failed(part.batch, _FAILED)


def _budget(asked: Record) -> Budget:
    budget = Budget(
        seconds=max(asked.seconds, _SECONDS),
        deterministic_seconds=asked.deterministic_seconds,
        cost_units=asked.cost_units,
        seed=asked.seed,
        workers=asked.workers,
    )
    return budget.replaying(asked.stopped, asked.left_out) if asked.stopped or asked.left_out else budget


def explained(
    asked: Record, pod: Pod, cache: SolverCache | None = None, *, protected: frozenset[ClaimId] = frozenset()
) -> PodDiagnosis:
    """Explain one pod of a case, after the parts that are decided before it; those in `protected` keep devices."""
    snapshot, batch, cache = asked.snapshot, asked.batch, cache or SolverCache()
    for part, _ in _parts(asked, lambda part: _decided_before(asked, part, pod, cache)):
        snapshot, batch = part
        if pod in batch.pods:
            break
    budget = _budget(asked)
    # So that nodes show what is reserved on them.
    seen = reserve_for_nominated(snapshot, batch, asked.policy, cache, budget)
    alone = msgspec.structs.replace(seen, nominated=())
    return explain_pod(alone, batch, pod, asked.policy, budget, cache=cache, protected=protected)


def explained_placed(asked: Record, pod: Pod) -> PodDiagnosis:
    """Explain a bound pod of a case."""
    return explain_placed(msgspec.structs.replace(asked.snapshot, nominated=()), pod, asked.policy, _budget(asked))


def _decided_before(asked: Record, part: SubBatch, pod: Pod, cache: SolverCache) -> Plan:
    """Decide a part, unless the pod itself is in it; `explain_pod` decides that part."""
    return all_failed(part.batch, _FAILED) if pod in part.batch.pods else _decided(asked, part, [], cache)


def save(path: Path, asked: Record, *, keep_parameters: bool) -> None:
    """Save a case; opaque parameters, which may hold secrets, only with `keep_parameters`. Raise `OSError`."""
    protected = asked if keep_parameters else recording.without_parameters(asked)
    private_file.replace(path, msgspec.json.format(msgspec.json.encode(protected)))


def load(path: Path) -> Record:
    """Read a saved case. Raise `SavedError`."""
    try:
        asked = recording.read(path)
    except OSError as error:
        raise SavedError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SavedError(f"{path}: not a case that `dovetail simulate --save` wrote: {error}") from error
    if (asked.api_version, asked.kind) != (recording.API_VERSION, recording.KIND):
        wanted = f"{recording.API_VERSION} {recording.KIND}"
        raise SavedError(f"{path}: is a {asked.api_version} {asked.kind}, and this version reads {wanted}")
    return asked


def named(claim: ClaimId, placement: Placement) -> ClaimId:
    """Return the name of a placed pod's claim; a special claim gets a generated name, as the API server would."""
    if placement.extended_resource_claim is None or claim != placement.extended_resource_claim.id:
        return claim
    base = claim.name.partition("<")[0]
    return ClaimId(claim.namespace, claim_templates.generated(base, placement.pod_uid, claim.name))
