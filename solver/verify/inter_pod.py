"""
Rules between pods: host ports, pod affinity and anti-affinity, topology spread, after all of a plan is bound.

Implemented from the API documentation (core/v1 PodAffinityTerm, TopologySpreadConstraint, ContainerPort). `LabelGroups`
groups pods by namespace and labels, so that a selector costs as much as it has requirements, not as there are pods.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.domain import (
    EVERY_PORT,
    HostPort,
    LabelRequirement,
    LabelSelector,
    Node,
    Plan,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
    Violation,
)
from solver.verify import matching
from solver.verify.plan_context import PlanContext
from solver.verify.violations import Rule, broken

_REFUSING: Final = frozenset({"NotIn", "DoesNotExist"})


class PodOnNode(NamedTuple):
    """A pod on a node; `is_new` if the plan places it."""

    pod: Pod
    node: Node
    labels: Mapping[str, str]
    """The node's labels."""
    is_new: bool


def requirement_holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Whether a requirement of a label selector holds; an unknown operator never holds."""
    if requirement.operator in {"In", "Exists"} and requirement.key not in labels:
        return False
    if requirement.operator in {"NotIn", "DoesNotExist"} and requirement.key not in labels:
        return True
    outcomes = {"Exists": True, "DoesNotExist": False}
    is_listed = labels.get(requirement.key) in requirement.values
    outcomes |= {"In": is_listed, "NotIn": not is_listed}
    return outcomes.get(requirement.operator, False)


def selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches labels; an absent one selects nothing, an empty one everything."""
    return selector is not None and all(requirement_holds(each, labels) for each in selector.requirements)


@dataclass(slots=True, eq=False)
class LabelGroups:
    """
    Pods in groups of one namespace and equal labels.

    `select` intersects sets of groups by label, so its cost does not grow with the number of groups.
    """

    groups: list[list[PodOnNode]] = field(default_factory=list)
    _numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int] = field(default_factory=dict)
    _of_namespace: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    _with_key: dict[str, set[int]] = field(default_factory=dict)
    _with_pair: dict[tuple[str, str], set[int]] = field(default_factory=dict)

    def add(self, seat: PodOnNode) -> None:
        """Add a pod to its group."""
        namespace, labels = seat.pod.id.namespace, seat.pod.labels
        number = self._numbers.setdefault((namespace, labels), len(self.groups))
        if number == len(self.groups):
            self.groups.append([])
            self._of_namespace[namespace].add(number)
            for key, value in labels:
                self._with_key.setdefault(key, set()).add(number)
                self._with_pair.setdefault((key, value), set()).add(number)
        self.groups[number].append(seat)

    def select(
        self, selector: LabelSelector | None, namespaces: Iterable[str] | None = None
    ) -> Iterator[list[PodOnNode]]:
        """Return the groups that a selector selects, in all namespaces or in some."""
        if selector is None:
            return
        demanded = [self._meeting(each) for each in selector.requirements if each.operator not in _REFUSING]
        if namespaces is not None:
            demanded.append(set[int]().union(*(self._of_namespace.get(each, ()) for each in set(namespaces))))
        if not all(demanded):
            return
        demanded.sort(key=len)
        found = demanded[0].intersection(*demanded[1:]) if demanded else set(range(len(self.groups)))
        for each in selector.requirements:
            if not found:
                return
            if each.operator in _REFUSING:
                found = found - self._refused(each)
        for number in sorted(found):
            yield self.groups[number]

    def _meeting(self, requirement: LabelRequirement) -> set[int]:
        """Return the groups that an In or Exists requirement selects; an unknown operator selects none."""
        if requirement.operator == "Exists":
            return self._with_key.get(requirement.key, set())
        return self._valued(requirement) if requirement.operator == "In" else set()

    def _refused(self, requirement: LabelRequirement) -> set[int]:
        """Return the groups that a NotIn or DoesNotExist requirement excludes."""
        if requirement.operator == "DoesNotExist":
            return self._with_key.get(requirement.key, set())
        return self._valued(requirement)

    def _valued(self, requirement: LabelRequirement) -> set[int]:
        pairs = {(requirement.key, value) for value in requirement.values}
        return set[int]().union(*(self._with_pair[each] for each in pairs & self._with_pair.keys()))


_EVERY_ADDRESS: Final = "0.0.0.0"


def violations(plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check placed pods against each other and against running pods; running pods are not checked among themselves."""
    if not _is_asked(plan, context):
        return
    index = _PodIndex.of(plan, context)
    yield from _ports(index)
    yield from _anti_affinity(index)
    yield from _affinity(index)
    yield from _spread(index)


def _is_asked(plan: Plan, context: PlanContext) -> bool:
    """Whether a placed pod has a rule about other pods, or a running pod has an anti-affinity term."""
    placed = (context.pods.get(placement.pod) for placement in plan.placements)
    asks = any(pod.host_ports or pod.affinity or pod.anti_affinity or pod.spread for pod in placed if pod is not None)
    return asks or any(pod.anti_affinity for pod in context.snapshot.pods)


@dataclass(slots=True, eq=False)
class _PodIndex:
    """All pods with their nodes; label groups are made at their first use."""

    context: PlanContext
    placed: list[PodOnNode] = field(default_factory=list)
    running: list[PodOnNode] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    groups_by_scope: dict[bool, LabelGroups] = field(default_factory=dict)
    counted: dict[tuple[object, ...], dict[str, str]] = field(default_factory=dict)
    """Results of `_places`: the domains of counted nodes."""

    @classmethod
    def of(cls, plan: Plan, context: PlanContext) -> "_PodIndex":
        found = cls(context)
        labels = {name: dict(node.labels) for name, node in context.nodes.items()}
        for placement in plan.placements:
            pod, node = context.pods.get(placement.pod), context.nodes.get(placement.node)
            if pod is not None and node is not None:
                found.placed.append(PodOnNode(pod, node, labels[node.name], is_new=True))
        moved = {seat.pod.uid for seat in found.placed}
        for pod in context.snapshot.pods:
            node = context.nodes.get(pod.node_name)
            if node is not None and pod.uid not in moved:
                found.running.append(PodOnNode(pod, node, labels[node.name], is_new=False))
        found.namespaces = {each.name: dict(each.labels) for each in context.snapshot.namespaces}
        return found

    def label_groups(self, *, with_running: bool) -> LabelGroups:
        if with_running not in self.groups_by_scope:
            label_groups = self.groups_by_scope[with_running] = LabelGroups()
            for seat in (*self.placed, *(self.running if with_running else ())):
                label_groups.add(seat)
        return self.groups_by_scope[with_running]

    def selected_pods(self, term: PodAffinityTerm, *, with_running: bool) -> list[PodOnNode]:
        """Return the pods that a term selects."""
        named = term.namespaces if term.namespace_selector is None else None
        found = self.label_groups(with_running=with_running).select(term.selector, named)
        return [seat for group in found if self._includes(term, group[0].pod.id.namespace) for seat in group]

    def is_selected(self, pod: Pod, term: PodAffinityTerm) -> bool:
        return self._includes(term, pod.id.namespace) and selected(term.selector, dict(pod.labels))

    def _includes(self, term: PodAffinityTerm, namespace: str) -> bool:
        return namespace in term.namespaces or selected(term.namespace_selector, self.namespaces.get(namespace, {}))


def _ports(index: _PodIndex) -> Iterator[Violation]:
    """Check host ports: a port on all addresses conflicts with the same port on any address."""
    names = {seat.node.name for seat in index.placed if seat.pod.host_ports}
    taken: defaultdict[str, _PortsInUse] = defaultdict(_PortsInUse)
    for seat in (*(each for each in index.running if each.node.name in names), *index.placed):
        node = taken[seat.node.name]
        for port in seat.pod.host_ports if seat.is_new else ():
            holder = node.holder(port)
            if holder is not None:
                message = f"{port.protocol} port {port.port} of node {seat.node.name} belongs to {holder.pod.id}"
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
        if port.address == _EVERY_ADDRESS:
            return next(iter(held.values()), None)
        return held.get(port.address) or held.get(_EVERY_ADDRESS)

    def take(self, port: HostPort, seat: PodOnNode) -> None:
        if port == EVERY_PORT:
            self.all_of = seat
        else:
            self.by_port.setdefault((port.protocol, port.port), {}).setdefault(port.address, seat)


def _anti_affinity(index: _PodIndex) -> Iterator[Violation]:
    """Check that no other pod that an anti-affinity term selects is in the domain of the term's pod."""
    holders: defaultdict[PodAffinityTerm, list[PodOnNode]] = defaultdict(list)
    values = {pair for seat in index.placed for pair in seat.labels.items()}
    for seat in (*index.running, *index.placed):
        for term in seat.pod.anti_affinity:
            if (
                term.topology_key,
                seat.labels.get(term.topology_key),
            ) in values:  # else the plan places no pod in its domain
                holders[term].append(seat)
    for term, holding in holders.items():
        is_asked = any(seat.is_new for seat in holding)
        near = _PodsByDomain.of(term.topology_key, index.selected_pods(term, with_running=is_asked))
        for seat in holding:
            other = near.to(seat)
            if other is not None:
                new, old = (seat, other) if seat.is_new else (other, seat)
                where = f"{term.topology_key}={seat.labels[term.topology_key]}"
                message = f"{where} holds {old.pod.id}, and a required anti-affinity excludes them from one domain"
                yield broken(Rule.POD_ANTI_AFFINITY, new.pod.id, message)


@dataclass(slots=True, eq=False)
class _PodsByDomain:
    """Selected pods by domain, all of them and the new ones."""

    key: str
    every: dict[str, list[PodOnNode]] = field(default_factory=dict)
    new: dict[str, list[PodOnNode]] = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, seats: Iterable[PodOnNode]) -> "_PodsByDomain":
        found = cls(key)
        for seat in seats:
            value = seat.labels.get(key)
            if value is not None:
                found.every.setdefault(value, []).append(seat)
                if seat.is_new:
                    found.new.setdefault(value, []).append(seat)
        return found

    def to(self, seat: PodOnNode) -> PodOnNode | None:
        """Return another pod in the domain of a pod; for a running pod only a new one."""
        those = (self.every if seat.is_new else self.new).get(seat.labels[self.key], ())
        return next((each for each in those if each.pod.uid != seat.pod.uid), None)


def _affinity(index: _PodIndex) -> Iterator[Violation]:
    """
    Check that the domain of each required term has another pod that all terms select.

    If no such pod exists in the cluster, one pod that its own terms select may be the first (core/v1: the special case
    for the first pod of a group).
    """
    groups: defaultdict[tuple[PodAffinityTerm, ...], list[PodOnNode]] = defaultdict(list)
    for seat in index.placed:
        if seat.pod.affinity:
            groups[seat.pod.affinity].append(seat)
    for terms, members in groups.items():
        found = index.selected_pods(terms[0], with_running=True)
        partners = [seat for seat in found if all(index.is_selected(seat.pod, term) for term in terms[1:])]
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


def _spread(index: _PodIndex) -> Iterator[Violation]:
    """Check that a placed pod's domain has at most maxSkew more selected pods than the smallest domain."""
    counted: dict[tuple[object, ...], dict[str, int]] = {}
    for seat in index.placed:
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
                counted[signature] = _counts(index, view)
            counts = counted[signature]
            is_enough = len(counts) >= constraint.min_domains
            skew = counts.get(value, 0) - (min(counts.values(), default=0) if is_enough else 0)
            if skew > constraint.max_skew:
                message = f"{constraint.topology_key}={value} has {skew} more pods than the smallest domain"
                yield broken(Rule.TOPOLOGY_SPREAD, seat.pod.id, message)


def _honoured(constraint: TopologySpreadConstraint, pod: Pod) -> tuple[object, ...]:
    affinity = (pod.node_selector, pod.required_affinity) if constraint.honours_affinity else None
    return affinity, pod.tolerations if constraint.honours_taints else None


def _counts(index: _PodIndex, view: _View) -> dict[str, int]:
    """Count selected pods per domain, over nodes with all of the pod's keys that its node policies include."""
    constraint, places = view.constraint, _places(index, view)
    found = Counter(dict.fromkeys(places.values(), 0))
    if constraint.selector is not None and constraint.selector.requirements:
        groups = index.label_groups(with_running=True).select(constraint.selector, (view.namespace,))
        for seat in (each for group in groups for each in group):
            if seat.node.name in places and not seat.pod.is_deleting:
                found[places[seat.node.name]] += 1
    return dict(found)


def _places(index: _PodIndex, view: _View) -> dict[str, str]:
    """Return the domains of the counted nodes; cached for constraints with the same keys and node policies."""
    key = view.constraint.topology_key
    alike = (key, view.keys, *_honoured(view.constraint, view.pod))
    if alike not in index.counted:
        index.counted[alike] = {
            node.name: dict(node.labels)[key]
            for node in index.context.nodes.values()
            if set(view.keys) <= {label for label, _ in node.labels} and _counts_node(index, view, node.name)
        }
    return index.counted[alike]


def _counts_node(index: _PodIndex, view: _View, name: str) -> bool:
    node, pod = index.context.nodes[name], view.pod
    if view.constraint.honours_affinity:
        labels = dict(node.labels)
        if any(labels.get(key) != value for key, value in pod.node_selector):
            return False
        if pod.required_affinity is not None and not matching.selects(pod.required_affinity, node):
            return False
    return not (view.constraint.honours_taints and any(matching.untolerated(node.taints, pod.tolerations)))
