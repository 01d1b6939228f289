"""Decisions about preemptors as `Preemption` values, one for each part that can be carried out alone; messages."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from solver.domain import (
    HOSTNAME,
    ClaimAllocation,
    Placement,
    Pod,
    Reason,
    ReasonCode,
    Unplaced,
    Victim,
    wording,
)
from solver.domain.disjoint_sets import DisjointSets
from solver.preemption.dry_run import PreemptionCandidate, Preemptor
from solver.preemption.victims import VictimUnit

_SHOWN: Final = 3
"""Names of victims in a message."""
LATER: Final = Reason(code=ReasonCode.BUDGET, message="preemption: the scheduler tries again soon")


class PreemptionPart(NamedTuple):
    """Preemptors that depend on the same victims: where they will run, and all victims that they need."""

    preemptors: list[Preemptor]
    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...]
    evicted: tuple[VictimUnit, ...]


def split(
    preemptors: Iterable[Preemptor], found: PreemptionCandidate, *, as_one_part: bool = False
) -> Iterator[PreemptionPart]:
    """
    Split a decision into parts that do not depend on each other; with `as_one_part` there is one part.

    Nodes are connected by a preemptor on both, by victims of a gang on both, and by a claim that is allocated for both.
    There is one part, too, where a victim runs on no node of the preemptors, or a rule between pods reaches over nodes:
    the preemptors that come first would not fit without the later ones, or beside the later ones' victims.
    """
    at = {each.pod: each for each in found.placed.placements}
    placed = [preemptor for preemptor in preemptors if preemptor[0].id in at]
    used = {each.node for each in at.values()}
    given = {each.claim: each for each in found.placed.allocations}
    joined = DisjointSets[str]()
    for preemptor in placed:
        joined.join(at[pod.id].node for pod in preemptor)
    nodes_of: defaultdict[object, set[str]] = defaultdict(set)
    for number, unit in enumerate(found.evicted):
        nodes_of[unit.quorum or number] |= unit.nodes & used
    for connected in nodes_of.values():
        joined.join(connected)
    for claim in given:
        joined.join(each.node for each in at.values() if claim in each.claims)
    if as_one_part or not all(unit.nodes & used for unit in found.evicted) or _reach_over_nodes(placed, found):
        joined.join(used)
    for root in dict.fromkeys(joined.find(at[preemptor[0].id].node) for preemptor in placed):
        nodes = {name for name in used if joined.find(name) == root}
        placements = tuple(each for each in found.placed.placements if each.node in nodes)
        claims = dict.fromkeys(claim for each in placements for claim in each.claims)
        yield PreemptionPart(
            [preemptor for preemptor in placed if at[preemptor[0].id].node in nodes],
            placements,
            tuple(given[claim] for claim in claims if claim in given),
            tuple(unit for unit in found.evicted if unit.nodes & nodes or not unit.nodes & used),
        )


def _reach_over_nodes(preemptors: Sequence[Preemptor], found: PreemptionCandidate) -> bool:
    """Whether a rule between pods may couple preemptors, or a preemptor and a victim, on different nodes."""
    pods = [pod for preemptor in preemptors for pod in preemptor]
    if any(pod.affinity or any(each.is_required for each in pod.spread) for pod in pods):
        return True
    pods += (pod for unit in found.evicted for pod in unit.pods)
    return any(term.topology_key != HOSTNAME for pod in pods for term in pod.anti_affinity)


def victims_of(part: PreemptionPart) -> Iterator[Victim]:
    """Return the victims, each with a message that names the preemptor as far as its namespace may know."""
    first, *others = part.preemptors
    count = sum(map(len, others))
    more = f" and {count} more of its priority" if count else ""
    for unit in part.evicted:
        if unit.is_moved:
            continue
        gang = "" if len(unit.pods) == 1 else f", with the {len(unit.pods)} pods of its gang"
        if unit.priority >= min(pod.priority for pod in first):
            gang += ", which is within the guarantee of its DeviceQuota; this pod borrowed"
        for pod in unit.pods:
            yield Victim(
                pod=pod.id,
                pod_uid=pod.uid,
                node=pod.node_name,
                message=f"makes room for {_name(first, pod.id.namespace)}{more}{gang}",
                breaks_budgets=unit.breaks_budgets,
            )


def _name(preemptor: Sequence[Pod], reader: str) -> str:
    first = preemptor[0]
    if len(preemptor) > 1:
        return wording.seen(first.gang or first.id, reader)
    return f"{wording.seen(first.id, reader)} of priority {first.priority}"


def with_reason(unplaced: Unplaced, reason: Reason | None) -> Unplaced:
    """Add a reason to those of a pod; that the pod waits for victims comes first."""
    if reason is None:
        return unplaced
    is_first = reason.code is ReasonCode.PREEMPTING
    return replace(unplaced, reasons=(reason, *unplaced.reasons) if is_first else (*unplaced.reasons, reason))


def preempting(nodes: Sequence[str], victims: Sequence[Victim], reader: str) -> Reason:
    """Say for which victims a pod waits, as far as readers of its namespace may know, and on which nodes if given."""
    where = f" on {', '.join(dict.fromkeys(nodes))}" if nodes else ""
    if not victims:
        return Reason(code=ReasonCode.PREEMPTING, message=f"preemption: waits{where} for pods that are leaving")
    names = wording.several([each.pod for each in victims], reader, _SHOWN)
    message = f"preemption: waits{where} until pods that give way are gone: {names}"
    return Reason(code=ReasonCode.PREEMPTING, message=message)


def too_many(needed: int, left: int) -> Reason:
    """Say that more evictions are needed than the bound allows now."""
    message = (
        f"preemption: {needed} pods would have to be evicted, but the limit on evictions allows {max(0, left)} now"
    )
    return Reason(code=ReasonCode.BUDGET, message=message)
