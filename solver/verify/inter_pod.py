"""
Rules between pods: host ports, pod affinity and anti-affinity, topology spread, after all of a plan is bound.

Implemented from the API documentation (core/v1 PodAffinityTerm, TopologySpreadConstraint, ContainerPort).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from solver.domain import (
    ANY_ADDRESS,
    EVERY_PORT,
    HostPort,
    LabelSelector,
    Node,
    Plan,
    Pod,
    PodAffinityTerm,
    PodId,
    TopologySpreadConstraint,
    Violation,
    wording,
)
from solver.verify import matching
from solver.verify.label_groups import LabelGroups, selected
from solver.verify.plan_context import PlanContext
from solver.verify.violations import Rule, broken


class PodOnNode(NamedTuple):
    """A pod on a node; `is_new` if the plan places it."""

    pod: Pod
    node: Node
    labels: Mapping[str, str]
    """The node's labels."""
    is_new: bool


def violations(plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check placed pods against each other and against running pods; running pods are not checked among themselves."""
    if not _is_asked(plan, context):
        return
    pods = _PodsOnNodes.of(plan, context)
    yield from _ports(pods)
    yield from sorted(_anti_affinity(pods), key=attrgetter("subject", "message"))
    yield from _affinity(pods)
    yield from _spread(pods)


def port_violations(plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check host ports alone: of the running pods only those on the plan's nodes are looked at."""
    placed = (context.pods.get(placement.pod) for placement in plan.placements)
    if any(pod.host_ports for pod in placed if pod is not None):
        yield from _ports(_PodsOnNodes.of(plan, context))


def _is_asked(plan: Plan, context: PlanContext) -> bool:
    """Whether a placed pod has a rule about other pods, or a running pod has an anti-affinity term."""
    placed = (context.pods.get(placement.pod) for placement in plan.placements)
    asks = any(pod.host_ports or pod.affinity or pod.anti_affinity or pod.spread for pod in placed if pod is not None)
    return asks or len(context.index.pods.by_anti_affinity) > 0


@dataclass(slots=True, eq=False)
class _PodsOnNodes:
    """The placed pods with their nodes, and the running pods that the plan does not place too."""

    context: PlanContext
    placed: list[PodOnNode] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    """The uids of placed pods."""
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    placed_labels: LabelGroups = field(default_factory=LabelGroups)
    by_placed_pod: defaultdict[PodId, list[PodOnNode]] = field(default_factory=lambda: defaultdict(list))
    node_labels: dict[str, dict[str, str]] = field(default_factory=dict)
    """The labels of nodes that a check has asked for, by name."""
    counted: dict[tuple[object, ...], dict[str, str]] = field(default_factory=dict)
    """Results of `_places`: the domains of counted nodes."""

    @classmethod
    def of(cls, plan: Plan, context: PlanContext) -> "_PodsOnNodes":
        found = cls(context, namespaces={each.name: dict(each.labels) for each in context.snapshot.namespaces})
        for placement in plan.placements:
            pod, node = context.pods.get(placement.pod), context.nodes.get(placement.node)
            if pod is not None and node is not None:
                seat = PodOnNode(pod, node, found.labels(node), is_new=True)
                found.placed.append(seat)
                found.by_placed_pod[pod.id].append(seat)
        found.moved = {seat.pod.uid for seat in found.placed}
        found.placed_labels.follow(tuple(context.pods[each] for each in found.by_placed_pod))
        return found

    def labels(self, node: Node) -> dict[str, str]:
        if node.name not in self.node_labels:
            self.node_labels[node.name] = dict(node.labels)
        return self.node_labels[node.name]

    def running(self, pods: Iterable[Pod]) -> Iterator[PodOnNode]:
        """Return those of a snapshot's pods that stay where they are, with their nodes."""
        nodes = self.context.nodes
        for pod in pods:
            node = nodes.get(pod.node_name)
            if node is not None and pod.uid not in self.moved:
                yield PodOnNode(pod, node, self.labels(node), is_new=False)

    def select(
        self, selector: LabelSelector | None, namespaces: Iterable[str] | None, *, with_running: bool
    ) -> Iterator[list[PodOnNode]]:
        """Return the selected pods in groups of one namespace; a group can be empty."""
        for group in self.placed_labels.select(selector, namespaces):
            yield [seat for pod in group for seat in self.by_placed_pod[pod.id]]
        for group in self.context.index.labels.select(selector, namespaces) if with_running else ():
            yield list(self.running(group))

    def selected_pods(self, term: PodAffinityTerm, *, with_running: bool) -> list[PodOnNode]:
        """Return the pods that a term selects."""
        named = term.namespaces if term.namespace_selector is None else None
        groups = self.select(term.selector, named, with_running=with_running)
        return [seat for each in groups if each and self._includes(term, each[0].pod.id.namespace) for seat in each]

    def is_selected(self, pod: Pod, term: PodAffinityTerm) -> bool:
        return self._includes(term, pod.id.namespace) and selected(term.selector, dict(pod.labels))

    def _includes(self, term: PodAffinityTerm, namespace: str) -> bool:
        return namespace in term.namespaces or selected(term.namespace_selector, self.namespaces.get(namespace, {}))


def _ports(pods: _PodsOnNodes) -> Iterator[Violation]:
    """Check host ports: a port on all addresses conflicts with the same port on any address."""
    names = dict.fromkeys(seat.node.name for seat in pods.placed if seat.pod.host_ports)
    there = (pods.running(sorted(pods.context.index.pods.by_node.of(name), key=attrgetter("id"))) for name in names)
    taken: defaultdict[str, _PortsInUse] = defaultdict(_PortsInUse)
    for seat in (*chain.from_iterable(there), *pods.placed):
        node = taken[seat.node.name]
        for port in seat.pod.host_ports if seat.is_new else ():
            holder = node.holder(port)
            if holder is not None:
                other = wording.seen(holder.pod.id, seat.pod.id.namespace)
                message = f"host port {port.port} ({port.protocol}) of node {seat.node.name} is taken by {other}"
                yield broken(Rule.NODE_PORTS, seat.pod.id, message)
        for port in seat.pod.host_ports:
            node.take(port, seat)


@dataclass(slots=True, eq=False)
class _PortsInUse:
    """The host ports in use on one node: by protocol and number the pods by address."""

    by_port: dict[tuple[str, int], dict[str, PodOnNode]] = field(default_factory=dict)
    all_of: PodOnNode | None = None
    """A pod whose host ports cannot be decoded: it conflicts with every port."""

    def holder(self, port: HostPort) -> PodOnNode | None:
        if self.all_of is not None:
            return self.all_of
        held = self.by_port.get((port.protocol, port.port), {})
        if port.address == ANY_ADDRESS:
            return next(iter(held.values()), None)
        return held.get(port.address) or held.get(ANY_ADDRESS)

    def take(self, port: HostPort, seat: PodOnNode) -> None:
        if port == EVERY_PORT:
            self.all_of = seat
        else:
            self.by_port.setdefault((port.protocol, port.port), {}).setdefault(port.address, seat)


def _anti_affinity(pods: _PodsOnNodes) -> Iterator[Violation]:
    """Check that no other pod that an anti-affinity term selects is in the domain of the term's pod."""
    for term, holding in _holders(pods).items():
        is_asked = any(seat.is_new for seat in holding)
        selected_pods = pods.selected_pods(term, with_running=is_asked)
        near = _PodsByDomain.of(term.topology_key, selected_pods, {seat.labels[term.topology_key] for seat in holding})
        for seat in holding:
            other = near.to(seat)
            if other is not None:
                new, old = (seat, other) if seat.is_new else (other, seat)
                where = f"{term.topology_key}={seat.labels[term.topology_key]}"
                message = f"{where} holds {old.pod.id}, and a required anti-affinity excludes them from one domain"
                yield broken(Rule.POD_ANTI_AFFINITY, new.pod.id, message)


def _holders(pods: _PodsOnNodes) -> dict[PodAffinityTerm, list[PodOnNode]]:
    """Return the pods with each anti-affinity term, in the domains where the plan places pods."""
    found: defaultdict[PodAffinityTerm, list[PodOnNode]] = defaultdict(list)
    values = {pair for seat in pods.placed for pair in seat.labels.items()}
    by_term = pods.context.index.pods.by_anti_affinity
    running = ((term, seat) for term in by_term for seat in pods.running(by_term.of(term)))
    placed = ((term, seat) for seat in pods.placed for term in seat.pod.anti_affinity)
    for term, seat in chain(running, placed):
        if (term.topology_key, seat.labels.get(term.topology_key)) in values:
            found[term].append(seat)
    return found


@dataclass(slots=True, eq=False)
class _PodsByDomain:
    """Selected pods by domain, all of them and the new ones, sorted by id."""

    key: str
    every: dict[str, list[PodOnNode]] = field(default_factory=dict)
    new: dict[str, list[PodOnNode]] = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, seats: Iterable[PodOnNode], domains: set[str]) -> "_PodsByDomain":
        found = cls(key)
        for seat in sorted((each for each in seats if each.labels.get(key) in domains), key=lambda each: each.pod.id):
            found.every.setdefault(seat.labels[key], []).append(seat)
            if seat.is_new:
                found.new.setdefault(seat.labels[key], []).append(seat)
        return found

    def to(self, seat: PodOnNode) -> PodOnNode | None:
        """Return another pod in the domain of a pod; for a running pod only a new one."""
        those = (self.every if seat.is_new else self.new).get(seat.labels[self.key], ())
        return next((each for each in those if each.pod.uid != seat.pod.uid), None)


def _affinity(pods: _PodsOnNodes) -> Iterator[Violation]:
    """
    Check that the domain of each required term has another pod that all terms select.

    If no such pod exists in the cluster, one pod that its own terms select may be the first (core/v1: the special case
    for the first pod of a group).
    """
    groups: defaultdict[tuple[PodAffinityTerm, ...], list[PodOnNode]] = defaultdict(list)
    for seat in pods.placed:
        if seat.pod.affinity:
            groups[seat.pod.affinity].append(seat)
    for terms, members in groups.items():
        found = pods.selected_pods(terms[0], with_running=True)
        partners = [seat for seat in found if all(pods.is_selected(seat.pod, term) for term in terms[1:])]
        own = {seat.pod.uid for seat in members}
        keys = tuple(term.topology_key for term in terms)
        is_first = not any(not seat.is_new and any(key in seat.labels for key in keys) for seat in partners)
        domains = _domains(keys, (seat for seat in partners if seat.pod.uid not in own))
        willing = [seat for seat in partners if seat.pod.uid in own]
        waiting = _unmet(keys, members, domains)
        if waiting and is_first:
            firsts = [seat for seat in waiting if seat in willing and all(key in seat.labels for key in keys)]
            tries = [_unmet(keys, waiting, domains | _domains(keys, (first,))) for first in firsts]
            waiting = min((waiting, *tries), key=len)
        for seat in waiting:
            wanted = ", ".join(f"{key}={seat.labels.get(key, '')}" for key in keys)
            yield broken(Rule.POD_AFFINITY, seat.pod.id, f"no pod that its pod affinity selects is where {wanted}")


def _domains(keys: tuple[str, ...], seats: Iterable[PodOnNode]) -> set[tuple[int, str]]:
    """Return the domains with pods, by the position of the term."""
    return {(position, seat.labels[key]) for seat in seats for position, key in enumerate(keys) if key in seat.labels}


def _unmet(keys: tuple[str, ...], seats: list[PodOnNode], domains: set[tuple[int, str]]) -> list[PodOnNode]:
    """Return the pods without a partner in one of their domains."""
    return [
        seat
        for seat in seats
        if any((position, seat.labels.get(key)) not in domains for position, key in enumerate(keys))
    ]


class _View(NamedTuple):
    """A spread constraint with what decides how it counts: namespace, all keys of the pod, and the pod."""

    constraint: TopologySpreadConstraint
    namespace: str
    keys: tuple[str, ...]
    pod: Pod


def _spread(pods: _PodsOnNodes) -> Iterator[Violation]:
    """Check that a placed pod's domain has at most maxSkew more selected pods than the smallest domain."""
    counted: dict[tuple[object, ...], dict[str, int]] = {}
    for seat in pods.placed:
        demanded = [each for each in seat.pod.spread if each.is_required]
        keys = tuple(sorted({each.topology_key for each in demanded}))
        for constraint in demanded:
            value = seat.labels.get(constraint.topology_key)
            if value is None:
                message = f"node {seat.node.name} has no label {constraint.topology_key}"
                yield broken(Rule.TOPOLOGY_SPREAD, seat.pod.id, message)
                continue
            view = _View(constraint, seat.pod.id.namespace, keys, seat.pod)
            signature = (view.constraint, view.namespace, view.keys, *_honoured(constraint, seat.pod))
            if signature not in counted:
                counted[signature] = _counts(pods, view)
            counts = counted[signature]
            is_enough = len(counts) >= constraint.min_domains
            skew = counts.get(value, 0) - (min(counts.values(), default=0) if is_enough else 0)
            if skew > constraint.max_skew:
                message = f"{constraint.topology_key}={value} has {skew} more pods than the smallest domain"
                yield broken(Rule.TOPOLOGY_SPREAD, seat.pod.id, message)


def _honoured(constraint: TopologySpreadConstraint, pod: Pod) -> tuple[object, ...]:
    affinity = (pod.node_selector, pod.required_affinity) if constraint.honours_affinity else None
    return affinity, (pod.belongs_to_node, pod.tolerations) if constraint.honours_taints else None


def _counts(pods: _PodsOnNodes, view: _View) -> dict[str, int]:
    """Count selected pods per domain, over nodes with all of the pod's keys that its node policies include."""
    constraint, places = view.constraint, _places(pods, view)
    found = Counter(dict.fromkeys(places.values(), 0))
    if constraint.selector is not None and constraint.selector.requirements:
        for seat in chain.from_iterable(pods.select(constraint.selector, (view.namespace,), with_running=True)):
            if seat.node.name in places and not seat.pod.is_deleting:
                found[places[seat.node.name]] += 1
    return dict(found)


def _places(pods: _PodsOnNodes, view: _View) -> dict[str, str]:
    """Return the domains of the counted nodes; cached for constraints with the same keys and node policies."""
    key = view.constraint.topology_key
    alike = (key, view.keys, *_honoured(view.constraint, view.pod))
    if alike not in pods.counted:
        pods.counted[alike] = {
            node.name: pods.labels(node)[key]
            for node in pods.context.nodes.values()
            if set(view.keys) <= pods.labels(node).keys() and _counts_node(pods, view, node)
        }
    return pods.counted[alike]


def _counts_node(pods: _PodsOnNodes, view: _View, node: Node) -> bool:
    pod = view.pod
    if view.constraint.honours_affinity:
        labels = pods.labels(node)
        if any(labels.get(key) != value for key, value in pod.node_selector):
            return False
        if pod.required_affinity is not None and not matching.selects(pod.required_affinity, node):
            return False
    return not (view.constraint.honours_taints and any(matching.untolerated_by(pod, node.taints)))
