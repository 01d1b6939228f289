"""A case, or a saved one, to a checked plan."""

import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from scheduler.settings import Settings
from scheduler.simulation import deciding
from scheduler.simulation.case import Case
from scheduler.simulation.controllers import stamping
from scheduler.simulation.deciding import Part
from scheduler.worker import record
from scheduler.worker.record import Record
from scheduler.worker.serve import decide
from solver import Engine, solve
from solver.account import explain_pod
from solver.domain import (
    Account,
    Allocation,
    Batch,
    Budget,
    ClaimId,
    Placement,
    Plan,
    Pod,
    Policy,
    Preemption,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    Unplaced,
)
from solver.preemption import holding
from solver.preemption.vacancy import is_freed

_SECONDS: Final = 600.0
"""Wall time is only a safety net here: the deterministic budget ends the search, so that a replay ends where it did."""


class SavedError(ValueError):
    """A saved case cannot be used; the message names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    A plan, the allocations of its claims (new ones, and those that were there), and defects that were met.

    `freed` are the claims that are given up once the victims of each of the plan's preemptions are gone.
    """

    plan: Plan
    allocations: dict[ClaimId, Allocation]
    defects: tuple[str, ...] = ()
    freed: tuple[tuple[ClaimId, ...], ...] = ()


def recorded(case: Case, settings: Settings, scheduler_name: str) -> Record:
    """Give a case with everything else that decides the plan."""
    return Record(
        cause=f"simulated for scheduler {scheduler_name}",
        snapshot=case.snapshot,
        batch=case.batch,
        policy=_at_present(settings.policy(scheduler_name)),
        seconds=_SECONDS,
        deterministic_seconds=settings.solver.deterministic_seconds,
        workers=settings.solver.workers,
    )


def _at_present(policy: Policy) -> Policy:
    """Give the time of day, which how long pods have run is counted to; it is saved with the case."""
    rules = msgspec.structs.replace(policy.preemption, now=int(time.time()))
    return msgspec.structs.replace(policy, preemption=rules)


def answer(asked: Record) -> Answer:
    """Solve and check; never raises: a defect of the solver is a plan that places nobody, with what went wrong."""
    started = time.monotonic()
    defects: list[str] = []
    found = deciding.parts(asked.snapshot, asked.batch, lambda part: _decided(asked, part, defects))
    plan = deciding.joined(asked.batch, [plan for _, plan in found])
    report = msgspec.structs.replace(plan.report, seconds=round(time.monotonic() - started, 3))
    allocations = {claim.id: claim.allocation for claim in asked.snapshot.claims if claim.allocation is not None} | {
        each.claim: each.allocation for each in plan.allocations
    }
    freed = tuple(_freed(asked.snapshot, plan.preemptions))
    return Answer(msgspec.structs.replace(plan, report=report), allocations, tuple(defects), freed)


def _freed(snapshot: Snapshot, preemptions: Sequence[Preemption]) -> Iterator[tuple[ClaimId, ...]]:
    """Give for each preemption the claims that nobody holds any more after it, and that are really deallocated then."""
    held = [claim for claim in snapshot.claims if claim.allocation is not None and claim.reserved_for]
    leaving = set(snapshot.leaving)
    gone = {pod.uid for pod in snapshot.pods if pod.is_deleting or pod.id in leaving}
    for preemption in preemptions:
        going = {victim.pod_uid for victim in preemption.victims}
        touched = [claim for claim in held if any(each.uid in going for each in claim.reserved_for)]
        gone |= going
        yield tuple(claim.id for claim in touched if is_freed(claim, gone))


def _decided(asked: Record, part: Part, defects: list[str]) -> Plan:
    """Decide about a part, and note what went wrong."""
    try:
        plan, violations = decide(part.snapshot, part.batch, asked.policy, _budget(asked), solve)
        defects += (f"the plan broke a rule: {each.rule} ({each.subject}): {each.message}" for each in violations)
    except Exception as error:  # noqa: BLE001 - whatever the solver raises is a defect to report
        plan = None
        place = traceback.extract_tb(error.__traceback__)[-1]
        defects.append(
            f"the solver failed at {Path(place.filename).name}:{place.lineno}: {type(error).__name__}: {error}"
        )
    return plan if plan is not None else _nobody(part.batch)


def _budget(asked: Record) -> Budget:
    budget = Budget(
        seconds=max(asked.seconds, _SECONDS),
        deterministic_seconds=asked.deterministic_seconds,
        cost_units=asked.cost_units,
        seed=asked.seed,
        workers=asked.workers,
    )
    return budget.replaying(asked.stopped) if asked.stopped else budget


def explained(asked: Record, pod: Pod) -> Account:
    """Give the whole story of one of a case's pods, after what is decided before it."""
    snapshot, batch = asked.snapshot, asked.batch
    for part, _ in deciding.parts(snapshot, batch, lambda part: _decided_before(asked, part, pod)):
        snapshot, batch = part
        if pod in batch.pods:
            break
    budget = _budget(asked)
    seen = holding.held(snapshot, batch, asked.policy, Engine(), budget)  # so that the nodes show what is held on them
    return explain_pod(msgspec.structs.replace(seen, nominated=()), batch, pod, asked.policy, budget)


def _decided_before(asked: Record, part: Part, pod: Pod) -> Plan:
    """Decide about a part, unless the pod itself is in it: its story decides that anew."""
    return _nobody(part.batch) if pod in part.batch.pods else _decided(asked, part, [])


def save(path: Path, asked: Record, *, keep_parameters: bool) -> None:
    """Write a case to a file; opaque parameters, which may hold secrets, only where that is wanted. Raises OSError."""
    kept = asked if keep_parameters else record.without_parameters(asked)
    record.write(path, msgspec.json.format(msgspec.json.encode(kept)))


def load(path: Path) -> Record:
    """Read a saved case. Raises SavedError."""
    try:
        asked = record.read(path)
    except OSError as error:
        raise SavedError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SavedError(f"{path}: not a case that `dovetail simulate --save` wrote: {error}") from error
    if (asked.api_version, asked.kind) != (record.API_VERSION, record.KIND):
        wanted = f"{record.API_VERSION} {record.KIND}"
        raise SavedError(f"{path}: is a {asked.api_version} {asked.kind}, and this version reads {wanted}")
    return asked


def named(claim: ClaimId, placement: Placement) -> ClaimId:
    """Name a claim of a placed pod; one that is still to be made, for extended resources, as the API server might."""
    if placement.special is None or claim != placement.special.id:
        return claim
    base = claim.name.partition("<")[0]
    return ClaimId(claim.namespace, stamping.generated(base, placement.pod_uid, claim.name))


def _nobody(batch: Batch) -> Plan:
    reason = Reason(code=ReasonCode.SOLVER_FAILED, message="the solver failed on the pods that wait")
    return Plan(
        unplaced=tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(reason,)) for pod in batch.pods),
        report=SearchReport(status=SearchStatus.FALLBACK),
    )
