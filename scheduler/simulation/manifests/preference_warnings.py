"""Warnings about preferences that nothing can meet: a pod is placed without them, and nothing else would say so."""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from solver.domain import Batch, Node, NodeSelectorOperator, Pod, ResourceSlice, wording

_MOST: Final = 8
"""Warnings that are written out."""
_MOST_COMPARED: Final = 256
"""A key of more values, such as the hostname, is not looked through for one that was meant."""


class _Preference(NamedTuple):
    """What is preferred: a label key, with values where one of them is wanted; `what` says how."""

    what: str
    key: str
    values: tuple[str, ...] = ()


def of(batch: Batch, nodes: Iterable[Node], slices: Iterable[ResourceSlice] = ()) -> Iterator[str]:
    """Name each key, value and attribute of a preference that is nowhere, once, with the first pod or gang."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for key, value in node.labels:
            known[key].add(value)
    wanted = [(f"pod {pod.id}", each) for pod in batch.pods for each in _of_pod(pod)]
    wanted += [
        (f"gang {gang.id.namespace}/{gang.id.name}", _Preference("preferred topology", level.node_label))
        for gang in batch.gangs
        for level in gang.levels
        if level.node_label and not level.is_required
    ]
    first: dict[_Preference, str] = {}
    for who, each in wanted if known else ():
        if each.key not in known or (each.values and known[each.key].isdisjoint(each.values)):
            first.setdefault(each, who)
    for each, who in itertools.islice(first.items(), _MOST):
        yield f"{who}: {each.what} {wording.quoted(each.key)}{_absent(each, known)}"
    if len(first) > _MOST:
        yield f"{len(first) - _MOST} more preferences name what no node has, and decide nothing"
    yield from _of_attributes(batch, slices)


def _absent(preference: _Preference, known: defaultdict[str, set[str]]) -> str:
    if preference.key not in known:
        return f": no node has a label of this key, so it decides nothing{_meant(preference.key, known)}"
    value = preference.values[0]
    shown = wording.listed([wording.quoted(each) for each in preference.values])
    return f" in {shown}: no node has such a label, so it decides nothing{_meant(value, known[preference.key])}"


def _meant(name: str, known: Collection[str]) -> str:
    return wording.did_you_mean(name, known) if len(known) <= _MOST_COMPARED else ""


def _of_attributes(batch: Batch, slices: Iterable[ResourceSlice]) -> Iterator[str]:
    """Name the attributes of gangs' preferred levels that no device publishes."""
    known = {
        name if "/" in name else f"{each.driver}/{name}"
        for each in slices
        for device in each.devices
        for name, _ in device.attributes
    }
    first: dict[str, str] = {}
    for gang in batch.gangs if known else ():
        for level in gang.levels:
            if level.device_attribute and not level.is_required and level.device_attribute not in known:
                first.setdefault(level.device_attribute, f"gang {gang.id.namespace}/{gang.id.name}")
    for name, who in first.items():
        yield (
            f"{who}: preferred topology device:{wording.quoted(name)}: no device publishes this attribute, "
            f"so it decides nothing{_meant(name, known)}"
        )


def _of_pod(pod: Pod) -> Iterator[_Preference]:
    for _, term in pod.preferred_node_affinity:
        for each in term.match_expressions:
            values = each.values if each.operator == NodeSelectorOperator.IN else ()
            yield _Preference("preferred node affinity", each.key, values)
    for weighted in pod.preferred_affinity:
        yield _Preference("preferred pod affinity over", weighted.term.topology_key)
    for weighted in pod.preferred_anti_affinity:
        yield _Preference("preferred pod anti-affinity over", weighted.term.topology_key)
    for spread in pod.spread:
        if not spread.is_required:
            yield _Preference("topology spread (ScheduleAnyway) over", spread.topology_key)
