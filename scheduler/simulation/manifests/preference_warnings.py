"""Warnings about preferences that no node can meet: a pod is placed without them, and nothing else would say so."""

from collections.abc import Iterable, Iterator

from solver.domain import Batch, Node, Pod, wording


def of(batch: Batch, nodes: Iterable[Node]) -> Iterator[str]:
    """Name each label key of a preference that no node has once, with the first pod or gang that has it."""
    known = {key for node in nodes for key, _ in node.labels}
    if not known:
        return
    keys = [(f"pod {pod.id}", what, key) for pod in batch.pods for what, key in _keys(pod)]
    keys += [
        (f"gang {gang.id.namespace}/{gang.id.name}", "preferred topology", level.node_label)
        for gang in batch.gangs
        for level in gang.levels
        if level.node_label and not level.is_required
    ]
    absent = {(what, key): who for who, what, key in reversed(keys) if key not in known}
    for (what, key), who in reversed(absent.items()):
        close = wording.nearest(key, known)
        meant = f": did you mean {close}?" if close else ""
        yield f"{who}: {what} {wording.quoted(key)}: no node has a label of this key, so it decides nothing{meant}"


def _keys(pod: Pod) -> Iterator[tuple[str, str]]:
    for _, term in pod.preferred_node_affinity:
        yield from (("preferred node affinity", each.key) for each in term.match_expressions)
    yield from (("preferred pod affinity over", each.term.topology_key) for each in pod.preferred_affinity)
    yield from (("preferred pod anti-affinity over", each.term.topology_key) for each in pod.preferred_anti_affinity)
    wanted = (each.topology_key for each in pod.spread if not each.is_required)
    yield from (("topology spread (ScheduleAnyway) over", key) for key in wanted)
