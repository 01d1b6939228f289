"""Who waits for a node that others were leaving, once nobody does any more."""

from collections.abc import Iterator

from scheduler.cluster.mirror import Mirror
from scheduler.cluster.nominations import Nominations
from scheduler.cluster.occupancy import holds_node
from scheduler.cluster.transition import Transition
from solver.domain import Claim, Pod, PodId


def awaited(mirror: Mirror, nominations: Nominations, transition: Transition) -> Iterator[PodId]:
    """
    Give the nominated pods that a transition may let in.

    A pod left its node, or a claim gave devices back, and of nobody of lower priority on the node nominated it is
    known that it is still to leave. Costs nothing while no pod has a node nominated.
    """
    if not mirror.nominated or not _makes_room(transition):
        return
    left = transition.before.node_name if isinstance(transition.before, Pod) else ""
    for pod in mirror.nominated.values():
        if left and pod.nominated_node_name != left:
            continue
        there = mirror.company.on(pod.nominated_node_name)
        if not any(leaves(each, pod, nominations) for each in there.values()):
            yield pod.id


def _makes_room(transition: Transition) -> bool:
    before, after = transition.before, transition.after
    if isinstance(before, Pod):
        stays = isinstance(after, Pod) and holds_node(after) and after.uid == before.uid
        return holds_node(before) and not stays
    if isinstance(before, Claim) and before.allocation is not None:
        return not isinstance(after, Claim) or after.allocation is None
    return False


def leaves(each: Pod, pod: Pod, nominations: Nominations) -> bool:
    """Whether a pod is about to leave for one of a higher priority."""
    return each.priority < pod.priority and (each.is_deleting or nominations.is_leaving(each.id))
