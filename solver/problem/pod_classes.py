"""Classes of equal pods: in which ways devices serve a pod, which nodes it may use, and which pods are the same."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solver.domain import Batch, ClaimId, ExtendedResourceClaim, NodeSelector, Pod, Reason
from solver.feasibility import extended_resources, node_fit
from solver.problem import node_arrays
from solver.problem.devices.inventory import Inventory
from solver.problem.inter_pod import exclusions
from solver.problem.outline import Outline
from solver.problem.problem import Part, PodClass, Source
from solver.problem.requests.extended_resources import Mode
from solver.problem.solver_cache import Engine
from solver.problem.volumes.volume_topology import Terms


class _Way(NamedTuple):
    """How the devices of a pod are served on some nodes."""

    mode: Mode
    special: ExtendedResourceClaim | None
    parts: tuple[Part, ...]
    sources: tuple[tuple[Source, ...], ...]
    within: str = ""


def _ways(outline: Outline, pod: Pod, own: tuple[ClaimId, ...]) -> tuple[tuple[_Way, ...], tuple[Reason, ...]]:
    """Give the ways in which nodes can serve a pod, and what speaks against those that are left out."""
    ways: list[_Way] = []
    obstacles: list[Reason] = []
    for mode in outline.modes.of(pod):
        special = extended_resources.special_claim(pod, dict(mode.served), mode.number) if mode.served else None
        objections = outline.modes.objections(special) if special is not None else ()
        if objections:
            obstacles += objections
            continue
        if special is not None:
            outline.claims[special.id] = special.as_claim(pod.uid)
        ids = own if special is None else (*own, special.id)
        way = _Way(mode, special, *outline.parts(ids))
        ways += _split(outline, pod, way) if pod.gang in outline.splits.attributes else (way,)
    return tuple(ways), tuple(dict.fromkeys(obstacles))


def _split(outline: Outline, pod: Pod, way: _Way) -> Iterator[_Way]:
    """Divide a way where nodes have devices of several values of what the pod's gang has to share."""
    shared = [each.component for claim in pod.claim_ids if claim in outline.shared_ids for each in outline.cut(claim)]
    known = tuple(outline.components)
    found = outline.splits.of(pod.gang, [known[part.component] for part in way.parts], shared)
    mode = way.mode
    if found:
        whole = ~np.logical_or.reduce([each.nodes for each in found])
        yield way._replace(mode=mode._replace(nodes=whole if mode.nodes is None else whole & mode.nodes))
    else:
        yield way
    for each in found:
        narrowed = [outline.splits.narrowed(known[part.component], each.choice) for part in way.parts]
        parts = tuple(
            Part(outline.intern(component), part.copies) for part, component in zip(way.parts, narrowed, strict=True)
        )
        nodes = each.nodes if mode.nodes is None else each.nodes & mode.nodes
        yield way._replace(mode=mode._replace(nodes=nodes), parts=parts, within=str(each))


class _Seen(NamedTuple):
    """A pod that was looked at: its position, the number of its kind, and what it shares with others of the kind."""

    position: int
    kind: int
    pod: Pod
    ways: tuple[_Way, ...]
    obstacles: tuple[Reason, ...]
    shared: tuple[int, ...]
    terms: Terms | None


@dataclass(slots=True, eq=False)
class _Kinds:
    """Numbers kinds of equal pods, and keeps which nodes each of them may use."""

    outline: Outline
    stock: Inventory
    engine: Engine
    numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    verdicts: list[node_arrays.NodeVerdicts] = field(default_factory=list)

    def see(self, position: int, pod: Pod) -> _Seen:
        """Look at a pod; what costs anything is done here, so that time may end after any pod."""
        outline = self.outline
        open_claims = outline.unallocated(pod)
        shared = tuple(sorted(outline.shared_ids[each] for each in open_claims if each in outline.shared_ids))
        own = tuple(each for each in open_claims if each not in outline.shared_ids)
        ways, obstacles = _ways(outline, pod, own)
        if not ways:
            return _Seen(position, -1, pod, (), obstacles, shared, None)
        stance = outline.circle.stance(pod)
        wish = outline.store.wish(pod) if outline.store is not None else None
        wanted = node_fit.demand_of(pod, _claim_selectors(outline, pod))
        needs_identity = any(each.component.needs_identity for claim_id in own for each in outline.cut(claim_id))
        names = tuple(entry.entry for entry in pod.claims) if len(pod.claims) > 1 else ()
        parts = tuple(way.parts for way in ways)
        rest = (obstacles, shared, names, position if needs_identity else -1, wish.terms if wish else None)
        claimed = (outline.scarce(pod), outline.burdened.key(pod) if outline.burdened is not None else ())
        key = (*outline.keys.of_pod(pod), pod.requests, wanted, parts, outline.gang_key(pod), stance, *rest, *claimed)
        kind = self.numbers.get(key)
        if kind is None:
            verdicts = outline.circle.narrowed(stance, self.engine.node_verdicts(self.stock, wanted))
            self.verdicts.append(exclusions.narrowed(verdicts, wish.refusals) if wish is not None else verdicts)
            kind = self.numbers[key] = len(self.numbers)
        return _Seen(position, kind, pod, ways, obstacles, shared, wish.terms if wish is not None else None)


def classes(outline: Outline, batch: Batch, stock: Inventory, engine: Engine) -> list[PodClass]:
    """Form classes of the pods that are not rejected; those that nothing can serve, and on which it fails, are now."""
    kinds, seen = _Kinds(outline, stock, engine), list[_Seen]()
    for position, pod in outline.each(batch):
        found = outline.attempt(position, pod, lambda: kinds.see(position, pod))  # noqa: B023 - called at once
        if found is not None and not found.ways:
            outline.rejected[position] = found.obstacles
        elif found is not None:
            seen.append(found)
    families: dict[int, list[PodClass]] = {}
    count = 0
    for each in sorted(seen, key=lambda each: each.position):
        if each.position in outline.rejected:
            continue
        if each.kind not in families:
            families[each.kind] = _family(count, each, kinds.verdicts[each.kind], outline)
            count += len(each.ways)
        family = families[each.kind]
        family[0].members.append(each.position)
        for pod_class, way in zip(family, each.ways, strict=True):
            pod_class.members = family[0].members
            pod_class.sources.append(way.sources)
            pod_class.specials.append(way.special)
    return [each for family in families.values() for each in family]


def _family(count: int, seen: _Seen, verdicts: node_arrays.NodeVerdicts, outline: Outline) -> list[PodClass]:
    """Make the classes of a kind, one for each way."""
    family = [
        _pod_class((count, count + offset), seen.pod, way, verdicts, seen.shared)
        for offset, way in enumerate(seen.ways)
    ]
    for each in family:
        each.volumes = seen.terms
        each.is_overdue = seen.pod.id in outline.keys.overdue
    family[0].obstacles = seen.obstacles
    return family


def _pod_class(
    numbers: tuple[int, int], pod: Pod, way: _Way, verdicts: node_arrays.NodeVerdicts, shared: tuple[int, ...]
) -> PodClass:
    """Make a class without members; what devices serve is not asked of its nodes."""
    family, index = numbers
    served = dict(way.mode.served)
    if way.mode.nodes is not None:
        verdicts = verdicts.within(way.mode.nodes)
    requests = tuple(
        (resource, min(amount, node_arrays.MOST + 1)) for resource, amount in pod.requests if resource not in served
    )
    return PodClass(index, pod.priority, requests, verdicts, way.parts, shared, family, within=way.within)


def _claim_selectors(outline: Outline, pod: Pod) -> tuple[NodeSelector, ...]:
    allocations = (outline.claims[each].allocation for each in pod.claim_ids)
    return tuple(each.node_selector for each in allocations if each is not None and each.node_selector is not None)
