"""Nodes that are held for pods which were passed over: nobody who comes later takes what is meant for them."""

from collections import Counter
from collections.abc import Iterator

from solver.domain import Batch, Hold, Plan, Pod, Violation
from solver.verify.picture import Picture
from solver.verify.rules import Rule, broken


def violations(batch: Batch, plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Look at every pod that a plan puts on a held node."""
    for hold in batch.holds:
        later = _later(batch, plan, hold)
        if later:
            yield from _taken(hold, later, plan, picture)
            yield from _crowded(hold, later, picture)


def _taken(hold: Hold, later: list[tuple[Pod, str]], plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Later pods take no devices of a node that is held for its devices."""
    taking = _taking(plan, picture) if hold.takes_devices else set()
    for pod, node in later:
        if pod.id in taking:
            yield broken(Rule.NODE_HELD, pod.id, f"takes devices on node {node}, held for pod {hold.pod}")


def _later(batch: Batch, plan: Plan, hold: Hold) -> list[tuple[Pod, str]]:
    """Pods on the hold's nodes that come after it: of a lower priority, or of the same and not overdue."""
    pods, overdue = {pod.id: pod for pod in batch.pods}, set(batch.overdue)
    found = []
    for placement in plan.placements:
        pod = pods.get(placement.pod)
        if pod is None or placement.node not in hold.nodes or pod.uid in hold.uids:
            continue
        if pod.priority < hold.priority or (pod.priority == hold.priority and pod.id not in overdue):
            found.append((pod, placement.node))
    return found


def _taking(plan: Plan, picture: Picture) -> set[object]:
    """Pods for which the plan allocates devices that nobody else can have beside them."""
    allocated = {
        each.claim for each in plan.allocations if any(not result.admin_access for result in each.allocation.results)
    }
    found: set[object] = set()
    for placement in plan.placements:
        pod = picture.pods.get(placement.pod)
        if pod is not None and allocated & {*pod.claim_ids, *placement.claims}:
            found.add(pod.id)
    return found


def _crowded(hold: Hold, later: list[tuple[Pod, str]], picture: Picture) -> Iterator[Violation]:
    """What the later pods ask for has to be there beside what the hold asks for."""
    for resource, wanted in hold.requests:
        asked: Counter[str] = Counter()
        for pod, node in later:
            asked[node] += dict(pod.requests).get(resource, 0)
        for name, amount in asked.items():
            node_of = picture.nodes.get(name)
            if not amount or node_of is None:
                continue
            held = sum(dict(pod.requests).get(resource, 0) for pod in picture.snapshot.pods if pod.node_name == name)
            free = dict(node_of.allocatable).get(resource, 0) - held
            if amount > max(0, free - wanted):
                yield broken(Rule.NODE_HELD, name, f"{resource} is taken that is held for pod {hold.pod}")
