"""The hints of an explanation: what to write or ask next, each told once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scheduler.status.conditions import hints_of, without_hints
from solver.domain import PodDiagnosis, Reason, wording

if TYPE_CHECKING:
    from scheduler.simulation.explanation_output import Explained


def of_explained(explained: "Explained") -> dict[str, None]:
    """Return the hints of the decision; that of the condition, which may be old, only without a decision."""
    if explained.pod.node_name or not explained.waits:
        return {}
    if explained.diagnosis is not None:
        steps = [explained.next_step] if explained.next_step else []
        return dict.fromkeys((*steps, *_of_reasons(explained.diagnosis.reasons)))
    return dict.fromkeys(hints_of(explained.condition.message) if explained.condition is not None else ())


def beside_changes(explained: "Explained") -> list[str]:
    """Return the hints without those that a change says, which was checked and names the request."""
    changes = explained.diagnosis.changes if explained.diagnosis is not None else ()
    return [each for each in of_explained(explained) if not any(_says(one.message, each) for one in changes)]


def condition_message(explained: "Explained") -> str:
    """Return the message of the condition, without the hints that the decision says above it."""
    message = explained.condition.message if explained.condition is not None else ""
    return without_hints(message, of_explained(explained)) if explained.diagnosis is not None else message


def moves(explained: "Explained") -> str:
    """
    Return the command that looks for moves; "" where none can make room.

    Moves free no device in all: where the cluster has fewer free ones than a request needs, nothing is to be found.
    """
    found = explained.diagnosis
    if found is None or not any(wording.HELD_BY in each.message for each in found.changes):
        return ""
    held_nodes = {each.node for each in found.changes if wording.HELD_BY in each.message}
    if not any(_is_enough(found, node) for node in held_nodes):
        return ""
    gang = explained.pod.gang
    subject = f"pod/{explained.pod.id}" if gang is None else f"gang/{gang.namespace}/{gang.name}"
    return f"dovetail repair plan --for {subject} looks for moves that make room"


def _is_enough(found: PodDiagnosis, node: str) -> bool:
    """Whether all nodes together have the free devices that each request needs on a node."""
    free = Counter[str]()
    for group in found.nodes:
        for each in group.requests:
            free[each.request] += each.free * len(group.nodes)
    asked = next((group.requests for group in found.nodes if node in group.nodes), ())
    return bool(asked) and all(each.needed and each.needed <= free[each.request] for each in asked)


def _says(change: str, hint: str) -> bool:
    counts, is_count, _ = hint.partition(f" {wording.FITS_NOW}")
    return bool(is_count) and change.startswith(f"{counts.replace(' of ', ' instead of ')} for ")


def _of_reasons(reasons: Sequence[Reason]) -> Iterator[str]:
    for reason in reasons:
        hint = reason.message.partition(wording.HINT)[2]
        if hint:
            yield hint
