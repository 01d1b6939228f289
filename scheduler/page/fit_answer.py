"""
The answer to "would this fit?" as the page shows it: that of `dovetail fit` in rows, without what a caller may not see.

Messages about a pod name objects of its own namespace only (docs/tenancy.md), and a question is about pods of
namespaces that the caller sees. What else names objects, victims and moves, is left out here for other namespaces, and
counted. Names of nodes are left out where the caller may not list nodes, except those that ResourceSlices name.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.api.queries import API_VERSION
from scheduler.simulation import fitting, plan_output
from scheduler.simulation.adding import node_additions
from scheduler.simulation.adding.node_additions import NodeAdditions
from scheduler.simulation.fitting import Fit
from scheduler.simulation.manifests.documents import ManifestProblem
from scheduler.simulation.printing import runs
from scheduler.visibility import VisibleNamespaces
from solver.domain import PodId, Reason, Unplaced, wording

MOST_ROWS: Final = 500
"""The most rows of a table."""
_LONGEST: Final = 600
"""Characters of one warning or error."""


class FitProblem(msgspec.Struct, frozen=True):
    """A mistake in a manifest: which document, object and field, and what to write instead."""

    source: str
    object: str
    field: str
    message: str


class FitPlacement(msgspec.Struct, frozen=True):
    """A pod that would start now: where ("": a node that the caller may not see), and a line for each request."""

    pod: str
    node: str
    devices: tuple[str, ...]


class FitWaiting(msgspec.Struct, frozen=True):
    """Pods that would wait for the same reasons; `hints` say what would help."""

    pods: tuple[str, ...]
    count: int
    hints: tuple[str, ...]
    reasons: tuple[str, ...]


class FitVictim(msgspec.Struct, frozen=True):
    """A pod that would be evicted; "" is one that the caller may not see."""

    pod: str
    node: str
    message: str


class FitMove(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """A pod that would have to move; "" is one that the caller may not see."""

    pod: str
    source: str
    target: str


class FitChange(msgspec.Struct, frozen=True):
    """A change after which the first of the pods that wait would start."""

    message: str
    node: str


class FitNodes(msgspec.Struct, frozen=True):
    """Nodes of one shape to add: how many, and what they cost together ("": nobody gave prices)."""

    shape: str
    count: int
    price: str


class FitAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="Fit"):
    """
    The document. `fits` is None where the manifests are wrong, so that there is no answer.

    `placed` and `waits` count pods; tables have the first `MOST_ROWS` rows. `leaves_out` says in a sentence what the
    caller may not see of the answer. `forbidden` are kinds that could not be listed: the answer is without them.
    """

    api_version: str = API_VERSION
    fits: bool | None = None
    sentence: str = ""
    summary: str = ""
    placed: int = 0
    waits: int = 0
    placements: tuple[FitPlacement, ...] = ()
    waiting: tuple[FitWaiting, ...] = ()
    victims: tuple[FitVictim, ...] = ()
    moves: tuple[FitMove, ...] | None = None
    nodes: tuple[FitNodes, ...] = ()
    """The nodes to add, where these were asked for; the placements are then those with the nodes."""
    changes: tuple[FitChange, ...] = ()
    changes_title: str = ""
    """What would start after one of them; empty without any."""
    problems: tuple[FitProblem, ...] = ()
    warnings: tuple[str, ...] = ()
    leaves_out: str = ""
    forbidden: tuple[str, ...] = ()


class FitVisibility(NamedTuple):
    """The namespaces that a caller sees, and the nodes whose names it sees (None: all)."""

    namespaces: VisibleNamespaces = VisibleNamespaces(everything=True)
    nodes: Collection[str] | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.namespaces.everything and self.nodes is None

    def pod(self, pod: PodId) -> str:
        """Name a pod; "" is one that the caller may not see."""
        return str(pod) if pod.namespace in self.namespaces else ""

    def node(self, name: str) -> str:
        """Name a node; "" is one that the caller may not see."""
        return name if self.nodes is None or name in self.nodes else ""


def wrong(problems: Sequence[ManifestProblem]) -> FitAnswer:
    """Make the answer to manifests about which nothing can be decided."""
    return FitAnswer(problems=listed(problems))


def listed(problems: Sequence[ManifestProblem]) -> tuple[FitProblem, ...]:
    """Convert errors of manifests, the first of them."""
    return tuple(
        FitProblem(each.source, each.subject, each.field, _short(" ".join(each.message.split())))
        for each in problems[:MOST_ROWS]
    )


def answer_of(found: Fit, wanted: int, seen: FitVisibility) -> FitAnswer:
    """Make the answer for a caller that asks for `wanted` copies."""
    result, plan = found.result, found.result.plan
    victims = [victim for preemption in plan.preemptions for victim in preemption.victims]
    return FitAnswer(
        fits=found.fits(wanted),
        sentence=fitting.sentence(found),
        summary=plan_output.summary(result),
        placed=len(plan.placements),
        waits=len(plan.unplaced),
        placements=tuple(
            FitPlacement(str(each.pod), seen.node(each.node), tuple(plan_output.claim_lines(each, result)))
            for each in plan.placements[:MOST_ROWS]
        ),
        waiting=tuple(_waiting(plan.unplaced))[:MOST_ROWS],
        victims=tuple(
            FitVictim(seen.pod(each.pod), seen.node(each.node), each.message if seen.pod(each.pod) else "")
            for each in victims[:MOST_ROWS]
        ),
        moves=None
        if found.moves is None
        else tuple(
            FitMove(seen.pod(each.pod), seen.node(each.source), seen.node(each.target)) for each in found.moves.moves
        ),
        changes=tuple(FitChange(each.message, each.node) for each in found.changes),
        changes_title=fitting.changes_title(found) if found.changes else "",
        warnings=tuple(_defects(found, seen)),
        leaves_out="" if seen.everything else _left_out(found),
    )


def answer_with_nodes(found: NodeAdditions, seen: FitVisibility) -> FitAnswer:
    """Make the answer for a caller that asks which nodes to add."""
    result, plan, shapes = found.result, found.result.plan, found.offered.shapes
    price_of = {shape.name: shape.price for shape in shapes.shapes}
    return FitAnswer(
        fits=found.starts,
        sentence=node_additions.sentence(found),
        summary=plan_output.summary(result),
        placed=len(plan.placements),
        waits=len(plan.unplaced),
        placements=tuple(
            FitPlacement(str(each.pod), seen.node(each.node), tuple(plan_output.claim_lines(each, result)))
            for each in plan.placements[:MOST_ROWS]
        ),
        waiting=tuple(_waiting(plan.unplaced))[:MOST_ROWS],
        nodes=tuple(
            FitNodes(name, count, shapes.price(count * price_of[name])) for name, count in found.counts.items()
        ),
        warnings=tuple(_short(each) for each in node_additions.notes(found)) if seen.everything else (),
    )


def _waiting(waiting: Sequence[Unplaced]) -> Iterator[FitWaiting]:
    by_reasons: defaultdict[tuple[Reason, ...], list[str]] = defaultdict(list)
    for unplaced in waiting:
        by_reasons[unplaced.reasons].append(str(unplaced.pod))
    for reasons, pods in by_reasons.items():
        split = [(reason, *reason.message.partition(wording.HINT)[::2]) for reason in reasons]
        yield FitWaiting(
            pods=tuple(runs(pods))[:MOST_ROWS],
            count=len(pods),
            hints=tuple(dict.fromkeys(hint for _, _, hint in split if hint)),
            reasons=tuple(f"{plan_output.nodes_of(reason)}{message}" for reason, message, _ in split),
        )


def _defects(found: Fit, seen: FitVisibility) -> Iterator[str]:
    for each in found.result.defects:
        yield _short(each) if seen.everything else "the solver failed on this question"


def _left_out(found: Fit) -> str:
    """Say what is missing for a caller that may not see everything."""
    if not found.result.plan.unplaced:
        return ""
    return (
        "What would have to end, and what to ask for instead, is named to callers that may list nodes, and pods and "
        "resourceclaims of all namespaces (the ClusterRole dovetail-viewer)."
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
