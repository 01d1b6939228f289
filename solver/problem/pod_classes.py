"""
Equivalence classes of pods: which pods are interchangeable, and in which ways nodes can serve each of them.

A class is what greedy, model and search count instead of single pods. `PodClassKey` is the solver's key;
the queue has a coarser one for pods that it has not prepared (`scheduler.queue.equivalence`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solver.arrays import MOST
from solver.domain import Batch, ClaimId, ExtendedResourceClaim, Pod, Reason
from solver.feasibility import extended_resources
from solver.problem.batch_requests import BatchRequests
from solver.problem.costs.preferences import CostKey
from solver.problem.devices.inventory import Inventory
from solver.problem.problem import Part, PodClass, Requests, Source
from solver.problem.requests.extended_resources import ExtendedResourceMode
from solver.problem.solver_cache import SolverCache
from solver.rules.inter_pod.pod_keys import InterPodKey
from solver.rules.node_fit import values as node_fit
from solver.rules.verdicts import NodeVerdicts
from solver.rules.volumes.topology import VolumeKey


class _Way(NamedTuple):
    """One way to serve the devices of a pod, on some nodes."""

    mode: ExtendedResourceMode
    special: ExtendedResourceClaim | None
    parts: tuple[Part, ...]
    sources: tuple[tuple[Source, ...], ...]
    within: str = ""


def _ways(requests: BatchRequests, pod: Pod, own: tuple[ClaimId, ...]) -> tuple[tuple[_Way, ...], tuple[Reason, ...]]:
    """Return the ways in which nodes can serve a pod, and the reasons against ways that are impossible."""
    ways: list[_Way] = []
    obstacles: list[Reason] = []
    for mode in requests.modes.of(pod):
        special = (
            extended_resources.extended_resource_claim(pod, dict(mode.served), mode.number) if mode.served else None
        )
        objections = requests.modes.objections(special) if special is not None else ()
        if objections:
            obstacles += objections
            continue
        if special is not None:
            requests.add_claim(special.as_claim(pod.uid))
        ids = own if special is None else (*own, special.id)
        way = _Way(mode, special, *requests.parts(ids))
        ways += _split(requests, pod, way) if pod.gang in requests.splits.attributes else (way,)
    return tuple(ways), tuple(dict.fromkeys(obstacles))


def _split(requests: BatchRequests, pod: Pod, way: _Way) -> Iterator[_Way]:
    """Divide a way where nodes have several values of the device attribute that the pod's gang has to share."""
    shared = [
        each.component
        for claim in pod.claim_ids
        if claim in requests.shared_ids
        for each in requests.components_of(claim)
    ]
    known = tuple(requests.components)
    found = requests.splits.of(pod.gang, [known[part.component] for part in way.parts], shared)
    mode = way.mode
    if found:
        whole = ~np.logical_or.reduce([each.nodes for each in found])
        yield way._replace(mode=mode._replace(nodes=whole if mode.nodes is None else whole & mode.nodes))
    else:
        yield way
    for each in found:
        narrowed = [requests.splits.narrowed(known[part.component], each.choice) for part in way.parts]
        parts = tuple(
            Part(requests.intern(component), part.copies) for part, component in zip(way.parts, narrowed, strict=True)
        )
        nodes = each.nodes if mode.nodes is None else each.nodes & mode.nodes
        yield way._replace(mode=mode._replace(nodes=nodes), parts=parts, within=str(each))


class PodClassKey(NamedTuple):
    """
    The key of pod equivalence: all that any rule, cost or reason reads of a pod.

    Pods with equal keys are interchangeable: in a valid plan any two of them can change places, and the plan stays
    valid and keeps its value. A new rule that reads something else of a pod has to add it here.
    """

    priority: int
    """Pods count in the level of their priority."""
    is_overdue: bool
    """Overdue pods count before others of their priority."""
    costs: CostKey
    """What preferences and scores read, as far as the policy has these levels."""
    requests: Requests
    """Resource requests."""
    node_demand: node_fit.NodeDemand
    """Node selector, node affinity, tolerations, and where allocated claims can be reached."""
    ways: tuple[tuple[Part, ...], ...]
    """What the pod needs of devices, for each way to serve it."""
    obstacles: tuple[Reason, ...]
    """Why nodes that would serve it in another way cannot."""
    gang: tuple[object, ...]
    """The gang, and the devices that the pod holds already."""
    interpod: InterPodKey
    """Host ports, pod affinity, anti-affinity and topology spread, its own and those of others that select it."""
    shared_claims: tuple[int, ...]
    """Unallocated claims that other pods of the batch use too."""
    claim_names: tuple[str, ...]
    """Names of several entries in `spec.resourceClaims`: they decide the order of results."""
    identity: int
    """The pod itself where a component speaks of single devices, so that no two pods are equal; else -1."""
    volumes: VolumeKey | None
    """What its volumes ask."""
    scarce_claims: tuple[ClaimId, ...]
    """Claims that it would join and that have too few places in reservedFor for all."""
    node_resources: tuple[object, ...]
    """What its allocated devices take of their node (KEP-5517)."""
    quota: int
    """The DeviceQuota of its namespace, where one of its limits may bind; else -1."""


class _Described(NamedTuple):
    """A pod with the number of its equivalence class, and what its class is made of."""

    position: int
    number: int
    pod: Pod
    ways: tuple[_Way, ...]
    obstacles: tuple[Reason, ...]
    shared: tuple[int, ...]
    terms: VolumeKey | None


@dataclass(slots=True, eq=False)
class _Equivalence:
    """Numbers the keys of pods, and keeps the nodes that the pods of each key may use."""

    requests: BatchRequests
    inventory: Inventory
    cache: SolverCache
    numbers: dict[PodClassKey, int] = field(default_factory=dict)
    verdicts: list[NodeVerdicts] = field(default_factory=list)

    def describe(self, position: int, pod: Pod) -> _Described:
        """Describe a pod; everything that costs time is done here, so that time may end after any pod."""
        requests = self.requests
        open_claims = requests.unallocated(pod)
        shared = tuple(sorted(requests.shared_ids[each] for each in open_claims if each in requests.shared_ids))
        own = tuple(each for each in open_claims if each not in requests.shared_ids)
        ways, obstacles = _ways(requests, pod, own)
        if not ways:
            return _Described(position, -1, pod, (), obstacles, shared, None)
        pod_volumes = requests.volume_index.volumes_of(pod) if requests.volume_index is not None else None
        needs_identity = any(
            each.component.needs_identity for claim_id in own for each in requests.components_of(claim_id)
        )
        key = PodClassKey(
            priority=pod.priority,
            is_overdue=pod.id in requests.overdue,
            costs=requests.cost_keys.of_pod(pod),
            requests=pod.requests,
            node_demand=node_fit.demand_of(pod, requests.claims),
            ways=tuple(way.parts for way in ways),
            obstacles=obstacles,
            gang=requests.gang_key(pod),
            interpod=requests.interpod.key(pod),
            shared_claims=shared,
            claim_names=tuple(entry.entry for entry in pod.claims) if len(pod.claims) > 1 else (),
            identity=position if needs_identity else -1,
            volumes=pod_volumes.terms if pod_volumes is not None else None,
            scarce_claims=requests.scarce(pod),
            node_resources=requests.node_takes.key(pod) if requests.node_takes is not None else (),
            quota=requests.quotas.leaf_of.get(pod.id.namespace, -1),
        )
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            verdicts = requests.interpod.narrowed(
                key.interpod, self.cache.node_verdicts(self.inventory, key.node_demand)
            )
            self.verdicts.append(verdicts.without(pod_volumes.refusals) if pod_volumes is not None else verdicts)
        return _Described(position, self.numbers[key], pod, ways, obstacles, shared, key.volumes)


def classes(requests: BatchRequests, batch: Batch, inventory: Inventory, cache: SolverCache) -> list[PodClass]:
    """Form the equivalence classes of the pods; a pod that no way can serve, or that raises, is rejected."""
    equivalence, found = _Equivalence(requests, inventory, cache), list[_Described]()
    for position, pod in requests.open_pods(batch):
        each = requests.attempt(position, pod, lambda: equivalence.describe(position, pod))  # noqa: B023 - called at once
        if each is not None and not each.ways:
            requests.rejected[position] = each.obstacles
        elif each is not None:
            found.append(each)
    members: dict[int, list[_Described]] = {}
    for each in sorted(found, key=lambda each: each.position):
        if each.position not in requests.rejected:
            members.setdefault(each.number, []).append(each)
    formed: list[PodClass] = []
    for number, pods in members.items():
        formed += _family(
            len(formed),
            pods,
            equivalence.verdicts[number],
            is_overdue=pods[0].pod.id in requests.overdue,
            guarantees=requests.quotas.guarantees.get(pods[0].pod.id.namespace, ()) if pods[0].ways[0].parts else (),
        )
    return formed


def _family(
    first: int,
    members: Sequence[_Described],
    verdicts: NodeVerdicts,
    *,
    is_overdue: bool,
    guarantees: Sequence[int] = (),
) -> Iterator[PodClass]:
    """
    Make the classes of equal pods, one for each way; `first` is the index of the first.

    Each way has a class more for every quota within whose guarantee a pod may count.
    """
    example, positions = members[0], tuple(each.position for each in members)
    sources = [tuple(each.ways[number].sources for each in members) for number in range(len(example.ways))]
    specials = [tuple(each.ways[number].special for each in members) for number in range(len(example.ways))]
    ways = [(guarantee, way, each) for guarantee in (-1, *guarantees) for each, way in enumerate(example.ways)]
    for number, (guarantee, way, each_way) in enumerate(ways):
        served = dict(way.mode.served)
        asked = example.pod.requests
        yield PodClass(
            index=first + number,
            priority=example.pod.priority,
            # What devices serve is not asked of the node.
            requests=tuple((name, min(amount, MOST + 1)) for name, amount in asked if name not in served),
            verdicts=verdicts if way.mode.nodes is None else verdicts.within(way.mode.nodes),
            parts=way.parts,
            shared=example.shared,
            family=first,
            members=positions,
            sources=sources[each_way],
            specials=specials[each_way],
            obstacles=example.obstacles if number == 0 else (),
            volumes=example.terms,
            is_overdue=is_overdue,
            within=way.within,
            guarantee=guarantee,
        )
