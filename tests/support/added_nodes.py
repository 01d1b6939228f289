"""
Small cases of "which nodes to add", and the cheapest nodes by trying everything.

A case has at most six pods. What one node takes is asked of `bruteforce`, node by node; the oracle tries every way to
divide every set of pods over the nodes that are there and nodes of the shapes. It knows nothing of the solver.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import (
    Batch,
    Claim,
    Constraint,
    Gang,
    GangId,
    Node,
    NodeLimit,
    NodeShape,
    Pod,
    Request,
    ResourceSlice,
    Snapshot,
)
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.bruteforce import best

RACK = "example.com/rack"
ZONE = "topology.kubernetes.io/zone"
NUMA = "resource.example.com/numa"


class AddedNodesCase(NamedTuple):
    """What is asked: the cluster, the pods that wait, shapes, and limits of the nodes of several shapes together."""

    snapshot: Snapshot
    batch: Batch
    shapes: tuple[NodeShape, ...]
    limits: tuple[NodeLimit, ...] = ()


class Cheapest(NamedTuple):
    """Pods placed by priority, the highest first; the least price with which that many start; and the fewest nodes."""

    counts: tuple[int, ...]
    price: int
    nodes: int


def case(seed: int) -> AddedNodesCase:
    """Draw a case: the same one for the same seed."""
    draw = random.Random(seed)  # noqa: S311 -- cases, no secrets
    count, kinds = draw.randint(1, 6), ("whole", "partition", "share")
    kind = draw.choice(kinds)
    existing = [f"n{number}" for number in range(draw.randint(0, 2))]
    nodes = [_node(draw, name) for name in existing]
    slices = [one for name in existing for one in _slices(draw, name, kind)]
    held = [_held(name) for name in existing if kind == "whole" and draw.random() < 0.4]
    shapes = tuple(
        NodeShape(
            name=f"s{number}",
            node=_node(draw, f"of-s{number}"),
            slices=tuple(_slices(draw, f"of-s{number}", kind)),
            price=draw.randint(0, 6),
            most=draw.choice((None, None, None, 1, 2)),
        )
        for number in range(draw.randint(1, 3))
    )
    pods, claims = _pods(draw, count, kind)
    gangs, pods = _gangs(draw, pods)
    snapshot = b.snapshot(nodes, slices, claims, [each for each in held if _can_hold(each, slices)], b.gpu_class())
    if draw.random() < 0.3:
        zone = draw.choice("ab")
        claim = v.volume_claim("data", bound="pv")
        volume = replace(v.volume("pv", claim=claim), node_affinity=v.on_nodes(zone, key=ZONE))
        snapshot = v.with_storage(snapshot, volume, claim)
        pods = [v.using(pods[0], "data"), *pods[1:]]
    order = sorted(pods, key=lambda pod: -pod.priority)
    return AddedNodesCase(snapshot, b.batch(*order, gangs=gangs), shapes, _limits(draw, shapes))


def _limits(draw: random.Random, shapes: Sequence[NodeShape]) -> tuple[NodeLimit, ...]:
    """Limit what nodes of some of the shapes come to together: their number, or an amount that differs by shape."""
    pool = [shape.name for shape in shapes if draw.random() < 0.8]
    found = []
    if pool and draw.random() < 0.4:
        sizes = tuple((name, 1) for name in pool)
        found.append(NodeLimit(owner="pool", resource="nodes", limit="", left=draw.randint(0, 3), sizes=sizes))
    if pool and draw.random() < 0.4:
        sizes = tuple((name, draw.choice((2000, 3000, 5000))) for name in pool)
        found.append(NodeLimit(owner="pool", resource="cpu", limit="", left=draw.randint(0, 12_000), sizes=sizes))
    return tuple(found)


def _node(draw: random.Random, name: str) -> Node:
    labels = {ZONE: draw.choice("ab")}
    if draw.random() < 0.8:
        labels[RACK] = draw.choice("xy")
    taints = (b.taint("dedicated"),) if draw.random() < 0.2 else ()
    return b.node(name, cpu=draw.choice((2, 4, 8)), pods=draw.choice((2, 3, 110)), labels=labels, taints=taints)


def _slices(draw: random.Random, name: str, kind: str) -> list[ResourceSlice]:
    """Publish devices of one node: whole ones of two models on two NUMA nodes, partitions of a card, or shares."""
    if kind == "whole":
        model, count = draw.choice("AB"), draw.randint(0, 4)
        whole = (b.device(f"d{at}", attributes={"model": model, NUMA: at % 2}) for at in range(count))
        return [b.resource_slice(name, *whole)]
    if kind == "share":
        count = draw.randint(1, 2)
        capacities = {"memory": b.capacity(8, default=1, minimum=1, step=1)}
        shares = (b.device(f"d{at}", capacities=capacities, is_shareable=True) for at in range(count))
        return [b.resource_slice(name, *shares)]
    devices = [
        b.device(f"{size}g-{at}", attributes={"size": size}, consumes={"card": {"slices": size}})
        for size in (1, 2, 4)
        for at in range(4 // size)
    ]
    counters = b.resource_slice(name, slice_count=2, counter_sets={"card": {"slices": 4}})
    return [counters, b.resource_slice(name, *devices, slice_count=2)]


def _held(name: str) -> Claim:
    return b.held(f"held-{name}", b.result("gpu", "d0", name))


def _can_hold(claim: Claim, slices: Sequence[ResourceSlice]) -> bool:
    pool = claim.id.name.removeprefix("held-")
    return any(one.pool == pool and one.devices for one in slices)


def _pods(draw: random.Random, count: int, kind: str) -> tuple[list[Pod], list[Claim]]:
    asks = [_ask(draw, kind) for _ in range(2)]
    pods, claims = list[Pod](), list[Claim]()
    for number in range(count):
        request, constraints = draw.choice(asks)
        name = f"p{number}"
        own = [] if draw.random() < 0.2 else [f"c{number}"]
        claims += [b.claim(each, request, constraints=constraints) for each in own]
        pod = b.pod(
            name,
            *own,
            cpu=draw.choice((0, 1, 2, 3)),
            priority=draw.choice((0, 0, 10)),
            tolerations=(b.toleration("dedicated"),) if draw.random() < 0.5 else (),
            node_selector={ZONE: draw.choice("ab")} if draw.random() < 0.2 else None,
        )
        pods.append(pod)
    return pods, claims


def _ask(draw: random.Random, kind: str) -> tuple[Request, tuple[Constraint, ...]]:
    if kind == "share":
        return b.request("r", capacity={"memory": draw.choice((1, 3, 4, 5, 8))}), ()
    if kind == "partition":
        size = draw.choice((1, 2, 4))
        return b.request("r", selectors=(f"device.attributes['{b.GPU_DRIVER}'].size == {size}",)), ()
    count = draw.randint(1, 3)
    models = (f"device.attributes['{b.GPU_DRIVER}'].model == '{draw.choice('AB')}'",) if draw.random() < 0.3 else ()
    constraints = (b.match(NUMA, "r"),) if draw.random() < 0.3 else ()
    return b.request("r", count=count, selectors=models), constraints


def _gangs(draw: random.Random, pods: list[Pod]) -> tuple[list[Gang], list[Pod]]:
    """Make gangs of some of the pods, each of one priority; some have to be in one rack."""
    gangs, left, made = list[Gang](), list(pods), list[Pod]()
    while len(left) > 1 and draw.random() < 0.6:
        size = draw.randint(2, len(left))
        name, members, left = f"g{len(gangs)}", left[:size], left[size:]
        levels = (b.by_label(RACK),) if draw.random() < 0.4 else ()
        gangs.append(b.gang(name, draw.randint(1, size), *levels, members=size))
        made += [b.member(replace(pod, priority=members[0].priority), name) for pod in members]
    return gangs, [*made, *left]


def packing_case(seed: int) -> AddedNodesCase:
    """Draw up to 16 pods of few sizes for nodes of three shapes, which limits do not leave enough of."""
    draw = random.Random(seed)  # noqa: S311 -- as above
    shapes = tuple(
        NodeShape(
            name=f"s{count}",
            node=b.node(f"of-s{count}", cpu=64),
            slices=(b.gpu_slice(f"of-s{count}", count=count),),
            price=draw.randint(count, 2 * count),
        )
        for count in (3, 4, 7)
    )
    sizes = [draw.choice((1, 2, 2, 3, 5)) for _ in range(draw.randint(8, 16))]
    claims = [b.claim(f"c{number}", b.request("r", count=size)) for number, size in enumerate(sizes)]
    pods = [b.pod(f"p{number}", f"c{number}", priority=draw.choice((0, 0, 5))) for number in range(len(sizes))]
    own = tuple((shape.name, draw.choice((2000, 3000, 5000))) for shape in shapes)
    limits = (
        NodeLimit(owner="pool", resource="nodes", limit="", left=draw.randint(2, 5), sizes=(("s3", 1), ("s7", 1))),
        NodeLimit(owner="pool", resource="cpu", limit="", left=draw.randint(6000, 20_000), sizes=own),
    )
    order = sorted(pods, key=lambda pod: -pod.priority)
    return AddedNodesCase(b.snapshot(claims, b.gpu_class()), b.batch(*order), shapes, limits)


def cheapest(case: AddedNodesCase) -> Cheapest:
    """Try everything."""
    return _Oracle(case).answer()


class _Oracle:
    """Sets of pods are tuples of their positions in the batch."""

    def __init__(self, case: AddedNodesCase) -> None:
        self.case = case
        self.pods = case.batch.pods
        self.priorities = sorted({pod.priority for pod in self.pods}, reverse=True)
        self.fits = cache(self._fits)
        self.cover = cache(self._cover)

    def answer(self) -> Cheapest:
        found = list[tuple[tuple[int, ...], int, int]]()
        for started in self._sets():
            counts = tuple(sum(self.pods[each].priority == level for each in started) for level in self.priorities)
            prices = [self.cover(started, tuple(domains.items()), (), ()) for domains in self._domains(started)]
            known = [each for each in prices if each is not None]
            if known:
                found.append((tuple(-each for each in counts), *min(known)))
        counts, price, nodes = min(found)
        return Cheapest(tuple(-each for each in counts), price, nodes)

    def _sets(self) -> Iterator[tuple[int, ...]]:
        """Go through the sets of pods that may start: gangs with their minimum or not at all."""
        for chosen in product((False, True), repeat=len(self.pods)):
            started = tuple(position for position, is_in in enumerate(chosen) if is_in)
            members = Counter(self.pods[each].gang for each in started)
            if all(not members[gang.id] or members[gang.id] >= gang.min_count for gang in self.case.batch.gangs):
                yield started

    def _domains(self, started: tuple[int, ...]) -> Iterator[dict[GangId, str]]:
        tied = [
            gang.id
            for gang in self.case.batch.gangs
            if gang.levels and any(self.pods[each].gang == gang.id for each in started)
        ]
        for racks in product("xy", repeat=len(tied)):
            yield dict(zip(tied, racks, strict=True))

    def _cover(
        self,
        pods: tuple[int, ...],
        domains: tuple[tuple[GangId, str], ...],
        used: tuple[str, ...],
        added: tuple[tuple[str, int], ...],
    ) -> tuple[int, int] | None:
        """Return the least price and number of nodes that take some pods beside those in use."""
        if not pods:
            return 0, 0
        first, rest, found = pods[0], pods[1:], list[tuple[int, int]]()
        for chosen in product((False, True), repeat=len(rest)):
            together = (first, *(each for each, is_in in zip(rest, chosen, strict=True) if is_in))
            others = tuple(each for each, is_in in zip(rest, chosen, strict=True) if not is_in)
            for node in self.case.snapshot.nodes:
                if node.name not in used and self._may(node, together, domains) and self.fits(node.name, "", together):
                    after = self.cover(others, domains, tuple(sorted((*used, node.name))), added)
                    found += [] if after is None else [after]
            for shape in self.case.shapes:
                times = dict(added).get(shape.name, 0)
                if shape.most is not None and times >= shape.most:
                    continue
                more = tuple(sorted({**dict(added), shape.name: times + 1}.items())) if self._counts(shape) else added
                if not self._within_limits(dict(more)):
                    continue
                if self._may(shape.node, together, domains) and self.fits("", shape.name, together):
                    after = self.cover(others, domains, used, more)
                    found += [] if after is None else [(after[0] + shape.price, after[1] + 1)]
        return min(found, default=None)

    def _counts(self, shape: NodeShape) -> bool:
        """Whether it matters how many nodes of a shape there are."""
        return bool(shape.most) or any(shape.name in dict(limit.sizes) for limit in self.case.limits)

    def _within_limits(self, added: Mapping[str, int]) -> bool:
        return all(
            sum(size * added.get(shape, 0) for shape, size in limit.sizes) <= limit.left for limit in self.case.limits
        )

    def _may(self, node: Node, pods: tuple[int, ...], domains: tuple[tuple[GangId, str], ...]) -> bool:
        """Whether racks, and the zone of a volume, allow a node to some pods."""
        labels: Mapping[str, str] = dict(node.labels)
        rack_of = dict(domains)
        racks = {rack_of[gang] for each in pods if (gang := self.pods[each].gang) in rack_of}
        zones = {
            value
            for volume in self.case.snapshot.volumes
            if any(self.pods[each].volumes for each in pods) and volume.node_affinity is not None
            for term in volume.node_affinity.terms
            for expression in term.match_expressions
            for value in expression.values
        }
        return racks <= {labels.get(RACK, "")} and zones <= {labels[ZONE]}

    def _fits(self, node_name: str, shape_name: str, pods: tuple[int, ...]) -> bool:
        """Whether a node takes some pods together, by the brute force on this node alone."""
        snapshot = self.case.snapshot
        nodes = [node for node in snapshot.nodes if node.name == node_name]
        slices = [one for one in snapshot.slices if one.pool == node_name]
        for shape in self.case.shapes:
            if shape.name == shape_name:
                nodes, slices = [shape.node], list(shape.slices)
        alone = tuple(replace(self.pods[each], gang=None, volumes=(), priority=0) for each in pods)
        here = b.snapshot(nodes, slices, snapshot.claims, snapshot.classes)
        return best(here, Batch(pods=alone)).counts == (len(pods),)
