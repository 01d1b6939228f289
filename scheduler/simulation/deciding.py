"""
A case decided as the scheduler's cycle decides: where room is held for pods, part after part.

Each part sees the cluster as those before it leave it: what they place counts as running, for whom they have others
evicted room is held, and who is evicted is about to leave.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from scheduler.cluster import split_held
from solver.domain import Batch, Level, Placement, Plan, SearchReport, SearchStatus, Snapshot, Volume, VolumeClaim
from solver.preemption.vacancy import settled

_WORST_LAST = (SearchStatus.OPTIMAL, SearchStatus.FEASIBLE, SearchStatus.FALLBACK)


class Part(NamedTuple):
    """Pods that are decided together, and the cluster that they see."""

    snapshot: Snapshot
    batch: Batch


def parts(snapshot: Snapshot, batch: Batch, decide: Callable[[Part], Plan]) -> Iterator[tuple[Part, Plan]]:
    """Decide part after part; a batch for which nobody holds room is one part."""
    for each in split_held(batch, snapshot.nominated):
        part = Part(snapshot, msgspec.structs.replace(each, gangs=each.gangs_of(each.pods)))
        plan = decide(part)
        yield part, plan
        snapshot = after(snapshot, each, plan)


def after(snapshot: Snapshot, batch: Batch, plan: Plan) -> Snapshot:
    """Give the cluster as a plan leaves it before anybody who is evicted has gone."""
    placed = {each.pod for each in plan.placements}
    node_of = {each.pod: each.node for preemption in plan.preemptions for each in preemption.placements}
    waiting = {pod.id: pod for pod in snapshot.nominated if pod.id not in placed}
    waiting |= {
        pod.id: msgspec.structs.replace(pod, nominated_node_name=node_of[pod.id])
        for pod in batch.pods
        if pod.id in node_of
    }
    victims = {victim.pod for each in plan.preemptions for victim in each.victims}
    gangs = {each.id: each for each in (*snapshot.gangs, *batch.gangs)}
    seated = settled(snapshot, batch.pods, plan.placements, plan.allocations)
    return msgspec.structs.replace(
        _with_volumes(seated, plan.placements),
        nominated=tuple(waiting[key] for key in sorted(waiting)),
        leaving=tuple(sorted({*snapshot.leaving, *victims})),
        gangs=tuple(gangs[key] for key in sorted(gangs)),
    )


def _with_volumes(snapshot: Snapshot, placements: Sequence[Placement]) -> Snapshot:
    """Bind volumes to their claims, and select the nodes of those that are to be made."""
    bound = {each.claim: (each, placement.node) for placement in placements for each in placement.volumes}
    if not bound:
        return snapshot
    taken = {each.volume: each for each, _ in bound.values() if each.volume}

    def volume(each: Volume) -> Volume:
        binding = taken.get(each.name)
        if binding is None:
            return each
        return msgspec.structs.replace(each, claim=binding.claim, claim_uid=binding.claim_uid)

    def claim(each: VolumeClaim) -> VolumeClaim:
        binding, node = bound.get(each.id, (None, ""))
        if binding is None:
            return each
        if binding.volume:
            return msgspec.structs.replace(each, volume=binding.volume, is_bind_completed=True)
        return msgspec.structs.replace(each, selected_node=binding.made_on(node))

    return msgspec.structs.replace(
        snapshot,
        volumes=tuple(volume(each) for each in snapshot.volumes),
        volume_claims=tuple(claim(each) for each in snapshot.volume_claims),
    )


def joined(batch: Batch, plans: Sequence[Plan]) -> Plan:
    """Put the plans of the parts of a batch into one, in the order of the batch."""
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
        holds=tuple(dict.fromkeys(each for plan in plans for each in plan.holds)),
        report=_report([plan.report for plan in plans]),
    )


def _report(reports: Sequence[SearchReport]) -> SearchReport:
    """Sum up what was searched; a level is proven where each part of it is."""
    levels: dict[str, Level] = {}
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


def _sum(one: Level, other: Level) -> Level:
    return Level(
        name=one.name,
        value=one.value + other.value,
        bound=one.bound + other.bound,
        proven=one.proven and other.proven,
    )
