"""
`dovetail fit`: whether the pods of a file would start now, how many copies of them, and what has to change for more.

Waiting pods of the same or a higher priority are decided first, as the queue would. Then the pods of the file get what
is left: at once, after evictions, after moves (`moves`), or after one of the changes that `explain` would find.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

import msgspec
from msgspec.structs import replace
from rich.text import Text

from scheduler.settings import scheduler_names
from scheduler.settings.scheduler_names import DEFAULT_SCHEDULER
from scheduler.simulation import plan_output, printing, simulator
from scheduler.simulation.moves import moves_output, planned_moves
from scheduler.simulation.printing import counted
from scheduler.simulation.simulator import SimulationResult
from scheduler.worker.recording import Record
from solver import SolverCache, max_count
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimId,
    CopyCount,
    GangId,
    NearestChange,
    Pod,
    PodId,
    ReasonCode,
    Relocation,
    Unplaced,
)

if TYPE_CHECKING:
    from scheduler.simulation.admission.quota_admission import CopyLimit, QuotaLedger
    from scheduler.simulation.case_builder import CaseBuilder

MOST_COPIES: Final = 100_000
_SPARE: Final = "~more"
"""The end of the name of a pod that is counted beside those that run; no object has a name like this."""
_NO_COPY: Final = CopyCount(count=0, bound=0, is_proven=True)
_OF_QUOTAS: Final = "DeviceQuotas leave no more to the namespace (dovetail quota)"
_COUNT_SECONDS: Final = 10.0
_MOVES_SECONDS: Final = 10.0
_MOST_MOVED_FOR: Final = 64
"""Moves are searched for at most this number of pods: the model has a row for each pod and node."""


class SchedulerNameError(ValueError):
    """The pods of the manifests name several schedulers; the message names them."""


def scheduler_of(made: "CaseBuilder") -> str:
    """Return the scheduler that the pods of the manifests name, "" without pods. Raise `SchedulerNameError`."""
    names = sorted({pod.scheduler_name for pod in made.pods if pod.id in made.own})
    if len(names) > 1:
        raise SchedulerNameError(f"the pods name several schedulers, {', '.join(names)}")
    return names[0] if names else ""


def names_no_scheduler(made: "CaseBuilder") -> bool:
    """Whether all waiting pods of the manifests have the API's default for spec.schedulerName."""
    own = (pod for pod in made.pods if pod.id in made.own)
    names = {pod.scheduler_name for pod in own if not (pod.node_name or pod.is_terminal)}
    return names == {DEFAULT_SCHEDULER}


def misspelt(made: "CaseBuilder", name: str, known: Collection[str] | None) -> tuple[str, ...]:
    """Say of waiting pods of the manifests, which the case of a scheduler leaves out, that their names are misspelt."""
    if known is None:
        return ()
    own = (pod for pod in made.pods if pod.id in made.own and not (pod.node_name or pod.is_terminal))
    names = {pod.scheduler_name for pod in own} - {name}
    return tuple(scheduler_names.unserved(each, known) for each in scheduler_names.misspelt(names, known))


class Fit(NamedTuple):
    """
    The answer for the pods of a file.

    `copies` is set where a count was asked for, up to `most`; a copy is `copy_size` pods, and `limit` is what the
    quotas admit. `moves` and `changes` say what would let the pods in that do not start, where the plan evicts nothing
    for them. `changes` are about `stuck`, one of these pods, and about its whole `gang` if it has one. `running` pods
    run already where they are; `copies` counts them too. `unserved` says that nobody serves the schedulerName of the
    pods: the answer is then that with a name that is served, and none of them starts. `bound` is the quota or held
    room for which a pod waits, or for which no more copies start. `idle` says that no scheduler decides, as
    `scheduler_names.NO_SCHEDULER`.
    """

    result: SimulationResult
    copies: CopyCount | None
    copy_size: int
    most: int = 0
    limit: "CopyLimit | None" = None
    moves: Relocation | None = None
    changes: tuple[NearestChange, ...] = ()
    stuck: PodId | None = None
    gang: GangId | None = None
    running: int = 0
    unserved: str = ""
    bound: str = ""
    idle: str = ""

    def fits(self, wanted: int) -> bool:
        """Whether all pods start now; with a count, whether `wanted` copies do."""
        if self.unserved:
            return False
        return self.copies.count >= wanted if self.copies is not None else not self.result.plan.unplaced

    @property
    def is_cut(self) -> bool:
        """Whether more copies may fit than were to be counted."""
        return self.copies is not None and self.copies.count >= self.most

    @property
    def refusal(self) -> str:
        """Why a quota refuses one copy more than start; empty where no quota ends the count."""
        if self.copies is None or self.is_cut:
            return ""
        return self.bound if self.limit is None or self.copies.count < self.limit.most else self.limit.refusal


class RunningOfFile(NamedTuple):
    """
    The `number` of pods of a file that run already, and its `pods`.

    `spare` is one more of them under another name, which is counted: its claims are in the snapshot.
    """

    number: int
    pods: tuple[Pod, ...]
    spare: Pod


class FileInPlace(NamedTuple):
    """A case in which pods of a file run where they are (None: none does), and the pods of the file that are left."""

    asked: Record
    own: frozenset[PodId]
    running: RunningOfFile | None = None


def in_place(asked: Record, own: frozenset[PodId], gone: Sequence[Pod | Claim]) -> FileInPlace:
    """
    Put the pods that run back in their places, with their claims, where the file has equal pods and no others.

    `gone` is what the pods of the file replace. A pod of a file that was changed since is decided anew.
    """
    running = [each for each in gone if isinstance(each, Pod) and each.node_name and not each.is_deleting]
    mine = [pod for pod in asked.batch.pods if pod.id in own]
    claims = [each for each in gone if isinstance(each, Claim)]
    specs = {claim.id: (claim.requests, claim.constraints) for claim in (*asked.snapshot.claims, *claims)}
    is_one_kind = len({_kind(pod) for pod in mine}) == 1 and all(pod.gang is None for pod in mine)
    if not (running and is_one_kind) or {_spec(pod, specs) for pod in (*running, *mine)} != {_spec(mine[0], specs)}:
        return FileInPlace(asked, own)
    names = {pod.id for pod in running}
    anonymous = [pod.id for pod in mine if pod.id not in names]  # of a Deployment: any of them is one that runs
    done = names | set(anonymous[: len(running) - sum(pod.id in names for pod in mine)])
    uids, unused = {pod.uid for pod in running}, {pod.uid for pod in mine if pod.id in done}
    spare, own_claims = _spare(mine[0], asked.snapshot.claims)
    kept = [
        *(each for each in asked.snapshot.claims if each.owner_pod_uid not in unused),
        *(each for each in claims if each.owner_pod_uid in uids),
        *own_claims,
    ]
    snapshot = replace(asked.snapshot, pods=(*asked.snapshot.pods, *running), claims=tuple(kept))
    made = RunningOfFile(len(running), tuple(mine), spare)
    return FileInPlace(replace(asked, snapshot=snapshot, batch=asked.batch.without(done)), own - done, made)


def _spare(pod: Pod, claims: Sequence[Claim]) -> tuple[Pod, list[Claim]]:
    """Return a pod under another name, with claims of its own where its claims are made for it."""
    uid = f"{pod.uid}{_SPARE}"
    mine = {each.claim for each in pod.claims if each.claim is not None and each.template}
    names = {each: ClaimId(each.namespace, f"{each.name}{_SPARE}") for each in mine}
    made = [
        replace(each, id=names[each.id], uid=f"{each.uid}{_SPARE}", owner_pod_uid=uid)
        for each in claims
        if each.id in names
    ]
    own = tuple(replace(each, claim=names.get(each.claim, each.claim) if each.claim else None) for each in pod.claims)
    return replace(pod, id=PodId(pod.id.namespace, f"{pod.id.name}{_SPARE}"), uid=uid, claims=own), made


def _spec(pod: Pod, specs: Mapping[ClaimId, object]) -> object:
    """Return what decides where a pod can run, without what admission adds to one that exists."""
    claims = tuple((each.entry, each.template, specs.get(each.claim) if each.claim else None) for each in pod.claims)
    return pod.requests, pod.node_selector, pod.required_affinity, claims


def fit(
    asked: Record,
    own: Collection[PodId],
    most: int | None,
    *,
    running: RunningOfFile | None = None,
    quotas: "QuotaLedger | None" = None,
    says_changes: bool = True,
    says_moves: bool = True,
) -> Fit:
    """
    Answer for the pods `own` of a case; with `most`, also count the copies that fit and that `quotas` admit.

    Those that run already, in their places, count as copies.

    The changes that would let a pod in name any object of the cluster: without `says_changes` none is searched, nor are
    moves without `says_moves`.
    """
    cache = SolverCache()
    count = 0 if running is None else running.number
    spares = () if running is None else (running.spare,)
    every = replace(asked, batch=replace(asked.batch, pods=(*asked.batch.pods, *spares)))
    left = simulator.after_others(every, {*own, *(pod.id for pod in spares)}, cache)
    unit = replace(left.batch, pods=spares) if spares else _unit(left.batch)
    left = replace(left, batch=left.batch.without({pod.id for pod in spares}))
    result = simulator.answer(left, cache)
    found = Fit(result, None, len(unit.pods), running=count, bound=plan_output.limit_of(left, result.plan))
    if most is not None:
        charged = (left.batch.pods, unit.pods) if running is None else (running.pods, running.pods[:1])
        limit = None if quotas is None else quotas.copies(*charged)
        admitted = most if limit is None else min(most, limit.most)
        budget = Budget(seconds=_COUNT_SECONDS, deterministic_seconds=_COUNT_SECONDS, seed=left.seed)
        room = max(0, admitted - count)
        copies = max_count(left.snapshot, unit, left.policy, budget, room, cache=cache) if room else _NO_COPY
        copies = replace(copies, count=copies.count + count, bound=copies.bound + count)
        found = found._replace(copies=copies, most=most, limit=limit)
        if not found.refusal and left.snapshot.quotas and room > copies.count - count:
            free = max_count(replace(left.snapshot, quotas=()), unit, left.policy, budget, room, cache=cache)
            found = found._replace(bound=_OF_QUOTAS if free.count > copies.count - count else "")
    evicting = {each.pod for preemption in result.plan.preemptions for each in preemption.placements}
    stuck = [each.pod for each in result.plan.unplaced if each.pod not in evicting and not _is_absent(each)]
    if not stuck:
        return found
    helped = _with_moves(found, left) if says_moves else found
    return helped if helped.moves or not says_changes else _with_changes(found, left, stuck[0], cache)


def _is_absent(unplaced: Unplaced) -> bool:
    """Whether the pod does not exist yet, so that no change of the cluster helps it."""
    return any(each.code is ReasonCode.POD_NOT_CREATED for each in unplaced.reasons)


def _with_moves(found: Fit, left: Record) -> Fit:
    """Add the moves that let all pods in."""
    if len(left.batch.pods) <= _MOST_MOVED_FOR:
        moves = planned_moves.room_for(left, seconds=_MOVES_SECONDS)
        if moves.is_found and moves.moves:
            return found._replace(moves=moves)
    return found


def _with_changes(found: Fit, left: Record, stuck: PodId, cache: SolverCache) -> Fit:
    """Add the changes that let one of the pods in that does not start."""
    pod = next(pod for pod in left.batch.pods if pod.id == stuck)
    plan = found.result.plan
    own = frozenset(claim for each in plan.placements for claim in each.claims)
    explained = simulator.explained(simulator.after_placed(left, plan), pod, cache, protected=own)
    gang = pod.gang if explained.starts_with else None
    return found._replace(changes=explained.changes, stuck=stuck, gang=gang)


def _unit(batch: Batch) -> Batch:
    """Return what is counted: one pod where all are equal and in no gang, else all of them together."""
    kinds = {_kind(pod) for pod in batch.pods}
    if len(kinds) > 1 or any(pod.gang is not None for pod in batch.pods):
        return batch
    whole = (pod for pod in batch.pods if all(each.claim or each.is_skipped for each in pod.claims))
    return replace(batch, pods=(next(whole, batch.pods[0]),))


def _kind(pod: Pod) -> Pod:
    """Return a pod without the fields in which its replicas differ."""
    return replace(
        pod,
        id=PodId(pod.id.namespace, ""),
        uid="",
        creation="",
        claims=tuple(replace(each, claim=None, refusal="") if each.template else each for each in pod.claims),
        volumes=tuple(replace(each, claim=None) for each in pod.volumes),
    )


def document(found: Fit, wanted: int) -> dict[str, Any]:
    """Convert the answer to plain values."""
    copies = found.copies
    return {
        "fits": found.fits(wanted),
        "unserved": found.unserved or None,
        "bound": found.bound or None,
        "plan": plan_output.document(found.result),
        "count": None
        if copies is None
        else {
            "copies": copies.count,
            "running": found.running,
            "podsPerCopy": found.copy_size,
            "atMost": None if found.is_cut else copies.bound,
            "proven": copies.is_proven and not found.is_cut,
            "quota": found.refusal or None,
        },
        "moves": None
        if found.moves is None
        else [{"pod": str(each.pod), "from": each.source, "to": each.target} for each in found.moves.moves],
        "changes": [msgspec.to_builtins(each) for each in found.changes],
    }


def show(found: Fit, wanted: int, to: TextIO) -> None:
    """Print the answer in a sentence, then where the pods start, and what has to change for those that do not."""
    console = printing.console(to)
    colour = "green" if found.fits(wanted) and not found.idle else "yellow"
    printing.sentence(console, Text(printing.visible(sentence(found)), colour))
    plan_output.show(found.result, to)
    if found.moves is not None:
        printing.sentence(console, "All of them fit after these moves (dovetail repair plan makes them one by one):")
        moves_output.show_moves(found.moves, to)
    if found.changes:
        printing.sentence(console, Text(printing.visible(f"{changes_title(found)} (each was checked):")))
        for change in printing.visible(found.changes):
            printing.arrow(console, f"{change.message}  ({change.node})")


def _more(copies: CopyCount, found: Fit, why: str) -> str:
    """Say how many would start beside those that run."""
    more = copies.count - found.running
    if found.is_cut and not more:
        return f"{_running(found.running)}; more were not counted."
    proof = "" if copies.is_proven else f"; more may, up to {copies.bound - found.running}"
    if found.is_cut:
        proof = "; more were not counted"
    return f"{_running(found.running)}; {more or 'no'} more would start now{proof}{why}."


def changes_title(found: Fit) -> str:
    """Say what would start after one of the changes."""
    if found.gang is None:
        return f"Pod {found.stuck} would start after one of these"
    gang = f"{found.gang.namespace}/{found.gang.name}"
    return f"Gang {gang} would start after one of these, made in all its waiting pods"


def sentence(found: Fit) -> str:
    """Write the answer in a sentence."""
    return scheduler_names.led(found.unserved, _answer(found), found.idle)


def _answer(found: Fit) -> str:
    """Write the answer for pods with a name that is served."""
    plan = found.result.plan
    total = len(plan.placements) + len(plan.unplaced)
    if found.copies is not None:
        return _count(found.copies, found)
    if found.running and not total:
        return f"{_running(found.running)}, and no other pod is in the file."
    if found.running:
        return f"{_running(found.running)}. {_plan(found)}"
    return _plan(found)


def _running(count: int) -> str:
    return f"{count} of these {'runs' if count == 1 else 'run'} already"


def _plan(found: Fit) -> str:
    """Say how many pods the plan places."""
    plan = found.result.plan
    total = len(plan.placements) + len(plan.unplaced)
    if not plan.unplaced:
        return f"It fits: {counted(total, 'pod')} would start now."
    victims = sum(len(each.victims) for each in plan.preemptions)
    after = f", and more after the eviction of {counted(victims, 'pod')}" if victims else ""
    why = f": {found.bound}" if found.bound else ""
    return f"It does not fit: {len(plan.placements)} of {counted(total, 'pod')} would start now{after}{why}."


def _count(copies: CopyCount, found: Fit) -> str:
    size, why = found.copy_size, f": {found.refusal}" if found.refusal else ""
    if found.running:
        return _more(copies, found, why)
    if not copies.bound:
        return f"No {'pod' if size == 1 else f'copy of {size} pods'} would start now{why}."
    what = counted(copies.count, "pod" if size == 1 else "copy").replace("copys", "copies")
    each = f" of {size} pods{' each' if copies.count > 1 else ''}" if size > 1 else ""
    proof = f"no more would{why}" if copies.is_proven else f"more may, up to {copies.bound}"
    if found.is_cut:
        proof = "more were not counted"
    return f"{what}{each} would start now; {proof}."
