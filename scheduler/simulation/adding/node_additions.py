"""
`--add-nodes` of `dovetail fit` and `dovetail queue`: the cheapest nodes with which pods start.

Waiting pods of the same or a higher priority come before the pods asked about, and get nodes as well: once there are
new nodes, they would take them. Where all pods asked about start after these as things are, no node is added. What is
promised was decided with the new nodes there (`confirmed_nodes`), and keeps the rules (`solver.verify`).
"""

import dataclasses
import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

import solver
from scheduler.settings import scheduler_names
from scheduler.simulation import plan_output, printing, simulator
from scheduler.simulation.adding import coming_nodes, confirmed_nodes
from scheduler.simulation.adding.coming_nodes import ComingNodes
from scheduler.simulation.adding.shapes_file import PricedShapes
from scheduler.simulation.manifests.fields import Body
from scheduler.simulation.printing import counted
from scheduler.simulation.simulator import OtherPods, SimulationResult
from scheduler.worker.recording import Record
from solver import SolverCache
from solver.domain import (
    AddedNode,
    AddedNodes,
    Batch,
    NodeLimit,
    NodeShape,
    Plan,
    PodId,
    PreemptionRules,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Unplaced,
    wording,
)

_MOST_NAMES: Final = 4


class OfferedNodes(NamedTuple):
    """
    The nodes that can be had: shapes, limits of pools, and NodePools of which nothing is known.

    `claims` are Karpenter's NodeClaims; those under way are described by `known`, all shapes that the cluster shows.
    """

    shapes: PricedShapes
    limits: tuple[NodeLimit, ...] = ()
    unknown_pools: tuple[str, ...] = ()
    claims: tuple[Body, ...] = ()
    known: tuple[NodeShape, ...] = ()


class NodeAdditions(NamedTuple):
    """
    The answer: the nodes, and a plan for the pods asked about, in which the others are `others`.

    `coming` are nodes that are under way: they count as there. `for_others` are the names of added nodes without which
    the pods asked about start as well. `unserved`, `bound` and `idle` are as in `fitting.Fit`.
    """

    found: AddedNodes
    offered: OfferedNodes
    coming: ComingNodes
    result: SimulationResult
    unserved: str = ""
    bound: str = ""
    idle: str = ""
    for_others: frozenset[str] = frozenset()

    @property
    def starts(self) -> bool:
        """Whether all pods asked about start."""
        return not (self.unserved or self.result.plan.unplaced)

    @property
    def counts(self) -> dict[str, int]:
        """Return how many nodes of each shape are added, in the order of the shapes."""
        return self._counts(self.found.nodes)

    @property
    def counts_for_others(self) -> dict[str, int]:
        """Return the same of the nodes that the pods asked about do not need."""
        return self._counts([each for each in self.found.nodes if each.name in self.for_others])

    def _counts(self, nodes: Sequence[AddedNode]) -> dict[str, int]:
        counted_nodes = Counter(each.shape for each in nodes)
        names = [shape.name for shape in self.offered.shapes.shapes]
        return {name: counted_nodes[name] for name in names if counted_nodes[name]}


def find(asked: Record, own: Collection[PodId], offered: OfferedNodes) -> NodeAdditions:
    """Find the nodes for some of the waiting pods, and for those that come before these."""
    started, batch = time.monotonic(), _concerned(asked, own)
    as_it_is = _decided_after_others(asked, own) if own else None
    if as_it_is is not None and not as_it_is.plan.unplaced and not as_it_is.defects:
        return NodeAdditions(AddedNodes(), offered, ComingNodes(asked.snapshot), as_it_is)
    coming = coming_nodes.with_coming(asked.snapshot, offered.claims, offered.known)
    asked = msgspec.structs.replace(asked, snapshot=coming.snapshot)
    found, there = confirmed_nodes.find(asked, batch, offered.shapes.shapes, offered.limits)
    status = SearchStatus.OPTIMAL if found.is_proven and found.is_complete else SearchStatus.FEASIBLE
    plan = Plan(
        placements=found.placements,
        allocations=found.allocations,
        unplaced=tuple(_with_new_nodes(_about_shapes(each, found)) for each in found.waiting),
        report=SearchReport(status=status),
    )
    policy = msgspec.structs.replace(asked.policy, preemption=PreemptionRules())
    broken = solver.verify.check(there, batch, plan, policy)
    broken += solver.verify.check_added(found.nodes, offered.shapes.shapes, offered.limits)
    defects = tuple(f"the answer broke a rule: {each.rule} ({each.subject}): {each.message}" for each in broken)
    seconds = round(time.monotonic() - started, 3)
    plan = msgspec.structs.replace(plan, report=msgspec.structs.replace(plan.report, seconds=seconds))
    allocations = {claim.id: claim.allocation for claim in asked.snapshot.claims if claim.allocation is not None}
    allocations |= {each.claim: each.allocation for each in plan.allocations}
    result = SimulationResult(plan, allocations, defects).about(own)
    placed = tuple(each for each in plan.placements if each.pod not in own)
    waiting = sum(each.pod not in own for each in plan.unplaced)
    result = dataclasses.replace(result, others=OtherPods(placed, waiting))
    bound = plan_output.limit_of(msgspec.structs.replace(asked, batch=batch), result.plan)
    for_others = _for_others(asked, own, found, offered.shapes.shapes)
    return NodeAdditions(found, offered, coming, result, bound=bound, for_others=for_others)


def _decided_after_others(asked: Record, own: Collection[PodId]) -> SimulationResult:
    """Decide the pods asked about as `fit` does: with what those that come first leave."""
    cache = SolverCache()
    return simulator.answer(simulator.after_others(asked, own, cache), cache)


def _for_others(
    asked: Record, own: Collection[PodId], found: AddedNodes, shapes: Sequence[NodeShape]
) -> frozenset[str]:
    """Return the nodes on which no pod asked about starts, if these start without them: a decision says so."""
    started = {each.pod for each in found.placements if each.pod in own}
    used = {each.node for each in found.placements if each.pod in own}
    kept = tuple(each for each in found.nodes if each.name in used)
    if not started or len(kept) == len(found.nodes):
        return frozenset()
    there = solver.with_nodes(asked.snapshot, {each.name: each for each in shapes}, kept)
    policy = msgspec.structs.replace(asked.policy, preemption=PreemptionRules())
    without = _decided_after_others(msgspec.structs.replace(asked, snapshot=there, policy=policy), own)
    if not started <= {each.pod for each in without.plan.placements}:
        return frozenset()
    return frozenset(each.name for each in found.nodes if each.name not in used)


def _concerned(asked: Record, own: Collection[PodId]) -> Batch:
    """
    Return the pods asked about and those that come before them, without pods for which others were evicted.

    Where no pod is asked about, none comes before it.
    """
    least = min((pod.priority for pod in asked.batch.pods if pod.id in own), default=math.inf)
    refused = {pod for pod, _ in asked.not_made}
    nominated = {pod.id for pod in asked.snapshot.nominated}
    pods = tuple(
        pod
        for pod in asked.batch.pods
        if pod.id in own or (pod.priority >= least and pod.id not in nominated and pod.id not in refused)
    )
    return msgspec.structs.replace(asked.batch, pods=pods, gangs=asked.batch.gangs_of(pods))


def _about_shapes(waiting: Unplaced, found: AddedNodes) -> Unplaced:
    """Say "2 shapes" of what a reason counts, where it is about shapes."""
    if waiting.pod not in found.helpless:
        return waiting
    return msgspec.structs.replace(waiting, reasons=tuple(map(_of_shapes, waiting.reasons)))


def _with_new_nodes(waiting: Unplaced) -> Unplaced:
    """Say of what would fit that it needs the new nodes: the reasons were found with these there."""
    reasons = (
        msgspec.structs.replace(each, message=each.message.replace(wording.FITS_NOW, "would fit with new nodes"))
        for each in waiting.reasons
    )
    return msgspec.structs.replace(waiting, reasons=tuple(reasons))


def _of_shapes(reason: Reason) -> Reason:
    if not reason.node_count or reason.code is ReasonCode.QUOTA_EXCEEDED:
        return msgspec.structs.replace(reason, node_count=0)
    message = f"{counted(reason.node_count, 'shape')}: {reason.message}"
    return msgspec.structs.replace(reason, message=message, node_count=0)


def document(answer: NodeAdditions) -> dict[str, Any]:
    """Convert the answer to plain values."""
    found, shapes = answer.found, answer.offered.shapes
    is_priced = shapes.unit is not None
    price_of = {shape.name: shape.price for shape in shapes.shapes}
    return {
        "starts": answer.starts,
        "unserved": answer.unserved or None,
        "bound": answer.bound or None,
        "shapes": [
            {"name": name, "count": count, "price": shapes.price(price_of[name]) if is_priced else None}
            for name, count in answer.counts.items()
        ],
        "nodes": [
            {"name": each.name, "shape": each.shape, "needed": each.name not in answer.for_others}
            for each in found.nodes
        ],
        "price": shapes.price(found.price) if is_priced else None,
        "leastPrice": shapes.price(found.least_price) if is_priced else None,
        "leastNodes": found.least_price if not is_priced else None,
        "proven": found.is_proven,
        "complete": found.is_complete,
        "looked": [shape.name for shape in shapes.shapes],
        "unknownPools": list(answer.offered.unknown_pools),
        "coming": [
            {"nodeClaim": each.claim, "node": each.node, "instanceType": each.instance_type}
            for each in answer.coming.nodes
        ],
        "unknownClaims": list(answer.coming.unknown),
        "plan": plan_output.document(answer.result),
    }


def show(answer: NodeAdditions, to: TextIO) -> None:
    """Print the answer in a sentence, the nodes by shape, then what runs where and what waits."""
    console = printing.console(to)
    colour = "green" if answer.starts and not answer.idle else "yellow"
    printing.sentence(console, Text(printing.visible(sentence(answer)), colour))
    if answer.found.nodes:
        _show_nodes(answer, console)
    plan_output.show(answer.result, to)
    for line in notes(answer):
        printing.sentence(console, Text(printing.visible(line), "yellow"))


def sentence(answer: NodeAdditions) -> str:
    """Say which nodes to add and whether fewer would do."""
    return scheduler_names.led(answer.unserved, _answer(answer), answer.idle)


def _answer(answer: NodeAdditions) -> str:
    """Say it of pods with a name that is served."""
    total = len(answer.result.plan.placements) + len(answer.result.plan.unplaced)
    if not total:
        return "No node has to be added: none of these pods waits."
    started = len(answer.result.plan.placements)
    every = "both" if total == 2 else f"all {total}"  # noqa: PLR2004 - the word is for two
    whose = every if started == total else f"{started} of {total}"
    pods = f"{whose} {'pods' if total > 1 else 'pod'}" if started != total or total > 1 else "the pod"
    if not answer.found.nodes:
        there = "that there are or that are coming" if answer.coming.nodes else "that there are"
        why = f"{'start' if total > 1 else 'starts'} on the nodes {there}"
        if not answer.result.plan.unplaced:
            return f"No node has to be added: {pods} {why}."
        limited = any(reason.code is ReasonCode.NODE_LIMIT for each in answer.found.waiting for reason in each.reasons)
        why = "No more nodes can be had" if limited else "No node of these shapes helps"
        bound = f": {answer.bound}" if answer.bound else ""
        return f"{why}: {started} of {counted(total, 'pod')} would start on those that exist{bound}."
    price = answer.offered.shapes.price(answer.found.price)
    cost = f" for {price}" if price else ""
    nodes = counted(len(answer.found.nodes), "node")
    rest = f" For more: {answer.bound}." if answer.bound else ""
    start = f"Then {pods} would start; {_proof(answer)}.{_apart(answer, total)}{rest}"
    return f"Add {nodes}{cost}: {_listed(answer.counts)}. {start}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in counts.items())


def _apart(answer: NodeAdditions, total: int) -> str:
    """Say which of the nodes only pods that come first need; "" without any."""
    if not answer.for_others:
        return ""
    whose = "The pod starts" if total == 1 else "These pods start"
    return f" {whose} without {_listed(answer.counts_for_others)} of them, for pods that come first."


def _proof(answer: NodeAdditions) -> str:
    found, shapes = answer.found, answer.offered.shapes
    if found.is_proven and found.is_complete:
        return "no cheaper nodes do" if shapes.unit is not None else "fewer nodes do not"
    least = shapes.price(found.least_price) if shapes.unit is not None else counted(found.least_price, "node")
    if found.least_price >= found.price:
        return "no cheaper nodes do" if shapes.unit is not None else "fewer nodes do not"
    return f"whether cheaper nodes do is not proven, and they cost at least {least}"


def notes(answer: NodeAdditions) -> Iterator[str]:
    """Return what a reader has to know beside the answer."""
    others = answer.result.others
    if others is not None and others.placed and answer.found.nodes:
        yield (
            f"Of these nodes {counted(len(others.placed), 'waiting pod')} of the same or a higher priority would run "
            "too: they come first."
        )
    if answer.coming.nodes:
        claims = _claims([each.claim for each in answer.coming.nodes])
        yield (
            f"{counted(len(answer.coming.nodes), 'node')} counted as there, which Karpenter is making: {claims}. Pods "
            "that have a place there start when the node and its devices are ready."
        )
    if answer.coming.unknown:
        yield (
            f"Not counted: {_claims(answer.coming.unknown)}, which Karpenter is making into nodes. No node of the "
            "instance type shows its slices, or the type is not chosen yet. Wait, or describe it with --shapes FILE."
        )
    if answer.offered.unknown_pools:
        pools = ", ".join(answer.offered.unknown_pools)
        yield (
            f"Nothing is known of the nodes of NodePool {pools}: no node of an instance type that it allows is there "
            "to show its slices. Describe them with --shapes FILE."
        )
    yield from answer.result.defects


def _claims(names: Sequence[str]) -> str:
    return f"{'NodeClaim' if len(names) == 1 else 'NodeClaims'} {', '.join(names)}"


def _show_nodes(answer: NodeAdditions, console: Console) -> None:
    shapes, result = answer.offered.shapes, answer.result
    shape_of = {each.name: each.shape for each in answer.found.nodes}
    pods: defaultdict[str, list[str]] = defaultdict(list)
    for placement in (*result.plan.placements, *(result.others.placed if result.others else ())):
        if placement.node in shape_of:
            pods[shape_of[placement.node]].append(str(placement.pod).removeprefix("default/"))
    price_of = {shape.name: shape.price for shape in shapes.shapes}
    rows = []
    for name, count in answer.counts.items():
        names = list(printing.runs(sorted(pods[name])))
        shown = [*names[:_MOST_NAMES], *([f"… {len(pods[name])} pods in all"] if len(names) > _MOST_NAMES else [])]
        price = [Text(shapes.price(count * price_of[name]))] if shapes.unit is not None else []
        starting = Text(printing.visible(", ".join(shown)))
        rows.append((Text(str(count)), Text(printing.visible(name), "green"), *price, starting))
    prices = ("PRICE",) if shapes.unit is not None else ()
    printing.show_table(console, ("ADD", "SHAPE", *prices, "PODS THAT START THERE"), rows, numbers={"ADD"})
