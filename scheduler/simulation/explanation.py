"""Explains a pod or a gang of a case: what a decision does with it now, and what the cluster says of it."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple, TextIO

from msgspec.structs import replace

from scheduler.kube.pod_warnings import PodWarning
from scheduler.kube.pod_writes import PendingPod
from scheduler.simulation import explanation_output, printing, simulator
from scheduler.simulation.explanation_output import Explained, ReservedNodes
from scheduler.simulation.printing import counted
from scheduler.worker.recording import Record
from solver.domain import (
    COSCHEDULING_GROUP,
    DOVETAIL_GROUP,
    SCHEDULING_GROUP,
    Gang,
    Pod,
    PodClaim,
    PodDiagnosis,
    PodGroup,
    PodId,
    ReasonCode,
)

NEEDED: Final = frozenset({"nodes", "pods", "resourceslices", "deviceclasses", "resourceclaims"})
"""The kinds without which a decision says nothing about a pod."""
_GANG_WORDS: Final = {
    DOVETAIL_GROUP: ("the label dovetail.dev/gang={}", "the annotation dovetail.dev/gang-minimum"),
    COSCHEDULING_GROUP: ("the label scheduling.x-k8s.io/pod-group={}", "minMember of its PodGroup"),
    SCHEDULING_GROUP: ("schedulingGroup.podGroupName: {}", "minCount of its PodGroup"),
}
"""By the source of a gang, what a pod of it has, and what says its minimum."""
MOST_KINDS: Final = 3
"""Kinds of members of a gang that are explained on a terminal."""
_SHOWN: Final = 8
_UID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def of_pod(
    asked: Record | None, seen: PendingPod, warnings: tuple[PodWarning, ...] = (), *, is_live: bool
) -> Explained:
    """Explain a pod; without a case (None) only by what the cluster says of it."""
    pod, condition = seen.pod, seen.condition
    if asked is None:
        return Explained(pod, condition=condition, is_live=is_live, warnings=warnings)
    warnings = tuple(replace(each, message=_with_names(each.message, asked)) for each in warnings)
    allocations = {claim.id: claim.allocation for claim in asked.snapshot.claims}
    claims = tuple((each, allocations.get(each)) for each in pod.claim_ids)
    waiting = next((each for each in asked.batch.pods if each.id == pod.id), None)
    bound = next((each for each in asked.snapshot.pods if each.id == pod.id and each.node_name), None)
    diagnosis = None
    if waiting is not None and not waiting.scheduling_gates:
        diagnosis = simulator.explained(asked, waiting)
    elif bound is not None and not bound.is_deleting:
        diagnosis = simulator.explained_placed(asked, bound)
    reserved = tuple(_reserved(asked, diagnosis)) if diagnosis is not None else ()
    step = _next_step(asked, pod) if diagnosis is not None and not diagnosis.node else ""
    return Explained(bound or pod, diagnosis, condition, is_live, claims, warnings, reserved, next_step=step)


def _next_step(asked: Record, pod: Pod) -> str:
    """Say what completes the gang of a pod, where members are missing; "" elsewhere."""
    gang = next((each for each in asked.batch.gangs if each.id == pod.gang), None)
    if gang is None or gang.invalid or gang.id.source not in _GANG_WORDS:
        return ""
    exist = max(gang.member_count, sum(each.gang == gang.id for each in asked.batch.pods) + gang.running_count)
    if exist >= gang.min_count:
        return ""
    member, minimum = _GANG_WORDS[gang.id.source]
    missing = counted(gang.min_count - exist, "more pod")
    return f"create {missing} with {member.format(gang.id.name)}, or write {exist} as {minimum}"


def _reserved(asked: Record, diagnosis: PodDiagnosis) -> Iterator[ReservedNodes]:
    """Yield the nodes on which a pod would fit if they were not reserved for others."""
    if all(each.code is not ReasonCode.NODE_RESERVED for each in diagnosis.reasons):
        return
    fitting = {name for group in diagnosis.nodes if group.fits for name in group.nodes}
    creations = {pod.uid: pod.creation for pod in asked.batch.pods}
    now = dt.datetime.fromtimestamp(asked.policy.preemption.now, dt.UTC)
    for each in asked.batch.node_reservations:
        nodes = tuple(name for name in each.nodes if name in fitting)
        if nodes:
            waited = printing.age(creations.get(each.uids[0], ""), now)
            yield ReservedNodes(nodes, each.pod, len(each.uids), waited)


def _with_names(message: str, asked: Record) -> str:
    """Put the names of pods and claims in place of their uids, with which kubelets name them."""
    wanted = set(_UID.findall(message))
    if not wanted:
        return message
    pods = ((pod.uid, f"pod {pod.id}") for pod in (*asked.snapshot.pods, *asked.batch.pods))
    claims = ((claim.uid, f"claim {claim.id}") for claim in asked.snapshot.claims)
    names = {uid: name for uid, name in (*pods, *claims) if uid in wanted}
    return _UID.sub(lambda found: names.get(found[0], found[0]), message)


class ExplainedGang(NamedTuple):
    """
    A gang: its requirements (None without a waiting pod), its pods, and the explanation of each kind of waiting pod.

    `fitting_count` waiting pods would fit at once if the gang had no minimum. `kinds` are explanations, each with the
    number of waiting pods that it stands for; `more_kinds` are not explained. `waits` says whether a pod of the gang
    would get no node now. `conditions` are those of the PodGroup; `is_loose` says that it ties nothing (`Gang`).
    """

    name: PodId
    gang: Gang | None
    bound: tuple[Pod, ...]
    waiting: tuple[Pod, ...]
    fitting_count: int
    kinds: tuple[tuple[Explained, int], ...]
    waits: bool
    more_kinds: int = 0
    conditions: tuple[tuple[str, str, str, str], ...] = ()
    is_loose: bool = False

    @property
    def noun(self) -> str:
        """What it is called."""
        return "group" if self.is_loose else "gang"

    @property
    def workload(self) -> str:
        """The object that a person made, of whose pods the gang is; "" if not known."""
        return next((pod.workload for pod in (*self.waiting, *self.bound) if pod.workload), "")


class GangObjects(NamedTuple):
    """
    Pods with their conditions, and PodGroups; `is_live` says whether they were read from a cluster.

    `unserved` and `idle` are said of the waiting pods of a gang, as in `Explained`.
    """

    pods: Collection[PendingPod]
    groups: Sequence[PodGroup]
    is_live: bool
    unserved: str = ""
    idle: str = ""


def of_gang(asked: Record, name: PodId, seen: GangObjects, most_kinds: int | None) -> ExplainedGang | None:
    """Explain a gang, at most `most_kinds` kinds of its pods; None if neither pods nor a PodGroup have its name."""
    waiting = tuple(pod for pod in asked.batch.pods if _is_of(pod, name))
    bound = tuple(pod for pod in asked.snapshot.pods if _is_of(pod, name))
    group = next((each for each in seen.groups if each.id[:2] == name), None)
    if not (waiting or bound or group):
        return None
    conditions = {each.pod.id: each for each in seen.pods}
    first: dict[Pod, Pod] = {}
    counts = Counter[Pod]()
    for pod in waiting:
        counts[_kind(pod)] += 1
        first.setdefault(_kind(pod), pod)
    kinds = tuple(
        (
            of_pod(asked, conditions.get(pod.id, PendingPod(pod, None)), is_live=seen.is_live)._replace(
                unserved=seen.unserved, idle=seen.idle
            ),
            counts[kind],
        )
        for kind, pod in list(first.items())[:most_kinds]
    )
    more = len(first) - len(kinds)
    gang = next((each for each in asked.batch.gangs if waiting and each.id == waiting[0].gang), None)
    group_conditions = group.conditions if group is not None else ()
    fitting = _fitting(asked, waiting)
    known = (*asked.batch.gangs, *asked.snapshot.gangs)
    is_loose = any(each.is_loose for each in known if each.id[:2] == name)
    waits = any(each.waits for each, _ in kinds) or (more > 0 and _any_waits(asked, name))
    waits = waits or (is_loose and fitting < len(waiting))  # equal pods are explained once, and may not all fit
    return ExplainedGang(
        name, gang, bound, waiting, fitting, kinds, waits, more, conditions=group_conditions, is_loose=is_loose
    )


def _any_waits(asked: Record, name: PodId) -> bool:
    """Whether the plan of the whole case leaves out a pod of a gang."""
    left_out = {each.pod for each in simulator.answer(asked).plan.unplaced}
    return any(pod.id in left_out and _is_of(pod, name) for pod in asked.batch.pods)


def _is_of(pod: Pod, name: PodId) -> bool:
    return pod.gang is not None and pod.gang[:2] == name


def _kind(pod: Pod) -> Pod:
    """Return a pod without the fields in which equal members differ."""
    claims = tuple(PodClaim(entry=each.entry, template=each.template) for each in pod.claims)
    return replace(pod, id=PodId("", ""), uid="", creation="", generation=0, labels=(), claims=claims)


def _fitting(asked: Record, waiting: Sequence[Pod]) -> int:
    """Count the pods that fit at once without the rules of their gang."""
    if not waiting:
        return 0
    pods = tuple(replace(pod, gang=None) for pod in waiting)
    return len(
        simulator.answer(
            replace(asked, batch=replace(asked.batch, pods=pods, gangs=()), stopped=(), left_out=())
        ).plan.placements
    )


def gang_document(found: ExplainedGang) -> dict[str, Any]:
    """Convert the explanation of a gang to plain values."""
    return {
        "gang": str(found.name),
        "workload": found.workload or None,
        "waits": found.waits,
        "minCount": found.gang.min_count if found.gang is not None else None,
        "bound": [{"pod": str(pod.id), "node": pod.node_name} for pod in found.bound],
        "waiting": [str(pod.id) for pod in found.waiting],
        "fitting": found.fitting_count,
        "conditions": [
            {"type": kind, "status": status, "reason": reason, "message": message}
            for kind, status, reason, message in found.conditions
        ],
        "pods": [{"count": count, **explanation_output.document(each)} for each, count in found.kinds],
    }


def show_gang(found: ExplainedGang, to: TextIO, *, is_wide: bool = False) -> None:
    """Print the explanation of a gang: its state, and then each kind of waiting pod; all names with `is_wide`."""
    console = printing.console(to, width=explanation_output.WIDTH, most=explanation_output.WIDTH)
    for line in _gang_lines(printing.visible(found), None if is_wide else _SHOWN):
        printing.sentence(console, line, hang=explanation_output.HANG)
    for each, count in found.kinds:
        to.write("\n")
        if count > 1:
            printing.sentence(console, f"One of {count} equal pods:")
        explanation_output.show(each, to, is_wide=is_wide)
    if found.more_kinds:
        more = f"{counted(found.more_kinds, 'more kind')} of waiting pods"
        console.print()
        printing.sentence(console, f"The {found.noun} has {more}: -o wide and -o json explain all of them.")


def _gang_lines(found: ExplainedGang, most: int | None) -> Iterator[str]:
    needed = f", at least {found.gang.min_count} are needed" if found.gang is not None and found.gang.min_count else ""
    state = f"{counted(len(found.bound), 'pod')} bound, {len(found.waiting)} waiting{needed}."
    fit = ""
    if found.waiting:
        is_all = found.fitting_count == len(found.waiting)
        fit = f"{'all' if is_all else found.fitting_count} of those that wait would fit now."
        fit = f" {fit[0].upper()}{fit[1:]}" if found.is_loose else f" Without the gang's rules, {fit}"
    of_workload = f" of {found.workload}" if found.workload else ""
    yield f"{found.noun.capitalize()} {found.name}{of_workload}: {state}{fit}"
    for pod in found.bound[:most]:
        yield f"  {pod.id} is bound to node {pod.node_name}"
    if most is not None and len(found.bound) > most:
        yield f"  and {len(found.bound) - most} more"
    for kind, status, reason, message in found.conditions:
        yield f"{kind}={status} ({reason}): {message}"
