"""
Prints a plan: as a table of pods with their nodes and devices or the reasons why they wait, or as JSON or YAML.

docs/simulate.md documents the JSON form; fields are only added. Allocations have the API's form (AllocationResult).
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

import msgspec
from rich.text import Text

from scheduler.kube import encode
from scheduler.simulation import printing
from scheduler.simulation.printing import counted, pool_name, runs
from scheduler.simulation.simulator import SimulationResult, named
from scheduler.worker.recording import Record
from solver.domain import (
    Allocation,
    ClaimId,
    DeviceResult,
    Placement,
    Plan,
    Preemption,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Unplaced,
    wording,
)

Json = dict[str, Any]


def document(answer: SimulationResult) -> Json:
    """Convert the answer to plain values."""
    plan = answer.plan
    return {
        **_beside(answer),
        "placements": [_placement(each, answer) for each in plan.placements],
        "unplaced": [_unplaced(each) for each in plan.unplaced],
        "preemptions": [
            _preemption(each, freed, answer) for each, freed in zip(plan.preemptions, answer.freed, strict=True)
        ],
        "report": _report(plan.report),
    }


def _beside(answer: SimulationResult) -> Json:
    """Say what the plan does with pods that the question is not about."""
    if answer.others is None:
        return {}
    placed = [_placement(each, answer) for each in answer.others.placed]
    return {"others": {"placements": placed, "waiting": answer.others.waiting_count}}


def _preemption(preemption: Preemption, freed: Sequence[ClaimId], answer: SimulationResult) -> Json:
    made = {each.claim: each.allocation for each in preemption.allocations}
    reached = dataclasses.replace(answer, allocations=answer.allocations | made)
    return {
        "pods": [_placement(each, reached) for each in preemption.placements],
        "victims": [{"pod": str(each.pod), "node": each.node, "message": each.message} for each in preemption.victims],
        "freed": [
            {"claim": str(claim), "driver": each.device.driver, "pool": each.device.pool, "device": each.device.device}
            for claim in freed
            for each in answer.allocations[claim].results
        ],
        "proven": preemption.is_proven,
    }


def _placement(placement: Placement, answer: SimulationResult) -> Json:
    claims = [
        {
            "claim": str(named(claim, placement)),
            "allocation": encode.allocation_result(_complete(answer.allocations[claim])),
        }
        for claim in placement.claims
        if claim in answer.allocations
    ]
    found: Json = {"pod": str(placement.pod), "node": placement.node, "claims": claims}
    if placement.volumes:
        found["volumes"] = [
            {"claim": str(each.claim), "volume": each.volume, **({"node": each.node} if each.node else {})}
            for each in placement.volumes
        ]
    return found


def _complete(allocation: Allocation) -> Allocation:
    """Replace parameters that a saved case left out by an empty object."""
    config = tuple(
        each if each.parameters else msgspec.structs.replace(each, parameters="{}") for each in allocation.config
    )
    return msgspec.structs.replace(allocation, config=config)


def _unplaced(unplaced: Unplaced) -> Json:
    reasons = [{"code": reason.code.value, "message": reason.message} for reason in unplaced.reasons]
    return {"pod": str(unplaced.pod), "reasons": reasons}


def _report(report: SearchReport) -> Json:
    levels = [
        {"name": level.name, "value": level.value, "bound": level.bound, "proven": level.proven}
        for level in report.levels
    ]
    return {"status": report.status.value, "levels": levels, "seconds": report.seconds}


_MOST_NAMES: Final = 8
_STATUS: Final = {
    SearchStatus.OPTIMAL: "proven to be the best plan",
    SearchStatus.FEASIBLE: "not proven to be the best plan",
    SearchStatus.FALLBACK: "found by the greedy search alone",
}


def show(answer: SimulationResult, to: TextIO, nothing: str = "") -> None:
    """Print the table and a summary line; `nothing` says why no pod is in it."""
    console = printing.console(to)
    answer = printing.visible(_with_shown_claims(answer))
    if answer.plan.placements or answer.plan.unplaced:
        printing.show_table(console, ("POD", "NODE", "DEVICES / WHY IT WAITS"), _rows(answer))
    if any(each.victims for each in answer.plan.preemptions):
        printing.show_table(console, ("EVICTED", "NODE", "WHAT FOR"), _victims(answer))
    printing.sentence(console, Text(nothing or summary(answer)))
    for line in _others(answer):
        printing.sentence(console, Text(line))


def _with_shown_claims(answer: SimulationResult) -> SimulationResult:
    """Keep only the allocations that the tables show: of pods that are placed, and of those that evictions free."""
    placed = (claim for each in answer.plan.placements for claim in each.claims)
    freed = (claim for claims in answer.freed for claim in claims)
    known = answer.allocations
    return dataclasses.replace(
        answer, allocations={claim: known[claim] for claim in (*placed, *freed) if claim in known}
    )


def _rows(answer: SimulationResult) -> list[tuple[Text, ...]]:
    """Return a row for each pod that is placed, and one for the pods that wait for the same reasons."""
    rows: list[tuple[Text, ...]] = []
    for placement in answer.plan.placements:
        devices = "\n".join(claim_lines(placement, answer))
        rows.append((_name(placement.pod), Text(placement.node, "green"), Text(devices)))
    by_reasons: defaultdict[tuple[Reason, ...], list[str]] = defaultdict(list)
    for unplaced in answer.plan.unplaced:
        by_reasons[unplaced.reasons].append(str(_name(unplaced.pod)))
    for reasons, names in by_reasons.items():
        rows.append((Text(_names(names)), Text("waits", "yellow"), _reasons(reasons)))
    return rows


def _victims(answer: SimulationResult) -> list[tuple[Text, ...]]:
    """Return a row for each victim, with the reason of its eviction, and one for the devices that all of them free."""
    rows: list[tuple[Text, ...]] = []
    for preemption, freed in zip(answer.plan.preemptions, answer.freed, strict=True):
        rows += ((_name(victim.pod), Text(victim.node), Text(victim.message)) for victim in preemption.victims)
        nodes = {each.node for each in preemption.victims}
        node = nodes.pop() if len(nodes) == 1 else ""
        devices = [device for claim in freed for device in requests_of(answer.allocations.get(claim), {}, node)]
        if devices:
            rows.append((Text(), Text(), Text("frees " + "\n      ".join(devices), "cyan")))
    return rows


def _names(names: Sequence[str]) -> str:
    """List pods that wait for the same reasons: p-0 … p-9, in a few lines."""
    lines = list(runs(names))
    if len(lines) > _MOST_NAMES:
        lines = [*lines[: _MOST_NAMES - 1], f"… {len(names)} pods in all"]
    return "\n".join(lines)


def _name(pod: object) -> Text:
    return Text(str(pod).removeprefix("default/"))


def claim_lines(placement: Placement, answer: SimulationResult) -> Iterator[str]:
    """Return one line per request, with the claim's name if the pod has several claims."""
    special = placement.extended_resource_claim
    served: dict[str, str] = {}
    for each in special.mappings if special else ():  # init containers use the devices of later ones, which come first
        containers = served.get(each.request, "").removesuffix(f" {each.resource}")
        served[each.request] = f"{containers}{', ' if containers else ''}{each.container} {each.resource}"
    for claim in placement.claims:
        lead = f"{claim.name}: " if len(placement.claims) > 1 and (special is None or claim != special.id) else ""
        yield from (f"{lead}{line}" for line in requests_of(answer.allocations.get(claim), served, placement.node))


def requests_of(allocation: Allocation | None, names: Mapping[str, str], node: str = "") -> Iterator[str]:
    """
    Return one line per request; for extended resources with container and resource instead of the request.

    A pool that has the name of the pod's node goes without saying.
    """
    results = allocation.results if allocation is not None else ()
    if not results:
        yield "without devices"
    for request in dict.fromkeys(each.request for each in results):
        found = [each for each in results if each.request == request]
        pools = dict.fromkeys(pool_name(each.device.pool_id, node) for each in found)
        yield f"{names.get(request, request)} = {', '.join(runs(map(_device, found)))}  ({', '.join(pools)})"


def _device(result: DeviceResult) -> str:
    taken = " ".join(f"{name.rpartition('/')[2]} {amount}" for name, amount in result.consumed_capacity)
    notes = [each for each in (taken, "admin access" if result.admin_access else "") if each]
    return f"{result.device.device} [{', '.join(notes)}]" if notes else result.device.device


def _reasons(reasons: Iterable[Reason]) -> Text:
    """Return the hints, and then one line per reason."""
    text = Text()
    split = [(reason, *reason.message.partition(wording.HINT)[::2]) for reason in reasons]
    for hint in dict.fromkeys(hint for _, _, hint in split if hint):
        text.append("\n" if text else "").append(f"→ {hint}", "cyan")
    for reason, message, _ in split:
        text.append("\n" if text else "").append(f"{nodes_of(reason)}{message}", "yellow")
    return text


def limit_of(asked: Record, plan: Plan) -> str:
    """Say which quota or held room keeps a pod waiting that a plan leaves out, the first of them; "" for none."""
    not_made, pods = dict(asked.not_made), {pod.id: pod for pod in asked.batch.pods}
    for each in plan.unplaced:
        refused = (entry.refusal for entry in pods[each.pod].claims)
        if said := next(filter(None, (not_made.get(each.pod, ""), *refused)), ""):
            return said
        for reason in each.reasons:
            if reason.code in {ReasonCode.QUOTA_EXCEEDED, ReasonCode.NODE_RESERVED}:
                return reason.message
            if reason.code is ReasonCode.ROOM_HELD:
                return f"{counted(reason.node_count, 'node')} would do, but the room is held for other pods to come"
    return ""


def nodes_of(reason: Reason) -> str:
    """Write on how many nodes a reason holds, before its message; empty where it is about no nodes."""
    return f"{counted(reason.node_count, 'node')}: " if reason.node_count else ""


def _others(answer: SimulationResult) -> Iterator[str]:
    """Say which other pods are placed where one of the question waits, and how many wait as well."""
    others = answer.others
    if others is None:
        return
    if others.placed:
        names = [f"{_name(each.pod)} on {each.node}" for each in others.placed]
        yield f"Of the cluster's waiting pods the plan places {wording.shortened(names, _MOST_NAMES)}."
    if others.waiting_count:
        waiting = counted(others.waiting_count, "other pod")
        yield f"{waiting} of the cluster {printing.waits(others.waiting_count)} too (dovetail queue)."


def summary(answer: SimulationResult) -> str:
    """Say in one line how many pods are placed, how well that is proven, and how long it took."""
    plan = answer.plan
    placed, total = len(plan.placements), len(plan.placements) + len(plan.unplaced)
    if not total:
        return "No pod waits."
    nodes = len({each.node for each in plan.placements})
    devices = len({result.device for each in plan.allocations for result in each.allocation.results})
    where = f" on {counted(nodes, 'node')}" if nodes else ""
    victims = sum(len(each.victims) for each in plan.preemptions)
    evicted = f"; {counted(victims, 'pod')} would be evicted" if victims else ""
    with_devices = f" with {counted(devices, 'device')}" if devices else ""
    return (
        f"{placed} of {counted(total, 'pod')} placed{where}{with_devices}{evicted}; "
        f"{_STATUS[plan.report.status]}, {plan.report.seconds:.2f} s"
    )
