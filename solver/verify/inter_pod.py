"""Pods beside pods: host ports, pod affinity and anti-affinity, topology spread, at the end of a plan.

Written from the API's text (core/v1 PodAffinityTerm, TopologySpreadConstraint, ContainerPort). What a plan places
together may help or hinder each other; what counts is what is there once all of it is bound.

Pods and where they are, once a plan has been carried out; found by what selectors say of them.
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
    PodTerm,
    SpreadConstraint,
    Violation,
)
from solver.verify import matching
from solver.verify.plan_context import Picture
from solver.verify.violations import Rule, broken

_REFUSING: Final = frozenset({"NotIn", "DoesNotExist"})


class Seat(NamedTuple):
    """A pod on a node; `is_new` where the plan puts it there."""

    pod: Pod
    node: Node
    labels: Mapping[str, str]
    """The node's labels."""
    is_new: bool


def requirement_holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Whether one requirement of a label selector holds; one with an unknown operator does not."""
    if requirement.operator in {"In", "Exists"} and requirement.key not in labels:
        return False
    if requirement.operator in {"NotIn", "DoesNotExist"} and requirement.key not in labels:
        return True
    outcomes = {"Exists": True, "DoesNotExist": False}
    is_listed = labels.get(requirement.key) in requirement.values
    outcomes |= {"In": is_listed, "NotIn": not is_listed}
    return outcomes.get(requirement.operator, False)


def selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; one that is absent selects nothing, an empty one everything."""
    return selector is not None and all(requirement_holds(each, labels) for each in selector.requirements)


@dataclass(slots=True, eq=False)
class LabelGroups:
    """
    Seats in groups of one namespace and equal labels; which groups a selector selects is settled by sets of groups.

    So a selector costs as much as it has requirements, and not that for every group.
    """

    groups: list[list[Seat]] = field(default_factory=list)
    _numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int] = field(default_factory=dict)
    _of_namespace: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    _with_key: dict[str, set[int]] = field(default_factory=dict)
    _with_pair: dict[tuple[str, str], set[int]] = field(default_factory=dict)

    def add(self, seat: Seat) -> None:
        """Take a pod in."""
        namespace, labels = seat.pod.id.namespace, seat.pod.labels
        number = self._numbers.setdefault((namespace, labels), len(self.groups))
        if number == len(self.groups):
            self.groups.append([])
            self._of_namespace[namespace].add(number)
            for key, value in labels:
                self._with_key.setdefault(key, set()).add(number)
                self._with_pair.setdefault((key, value), set()).add(number)
        self.groups[number].append(seat)

    def select(self, selector: LabelSelector | None, namespaces: Iterable[str] | None = None) -> Iterator[list[Seat]]:
        """Give the groups that a selector selects, of all namespaces or of some."""
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
        """Groups with a label that a requirement demands; nobody meets one with an unknown operator."""
        if requirement.operator == "Exists":
            return self._with_key.get(requirement.key, set())
        return self._valued(requirement) if requirement.operator == "In" else set()

    def _refused(self, requirement: LabelRequirement) -> set[int]:
        """Groups with a label that a requirement refuses."""
        if requirement.operator == "DoesNotExist":
            return self._with_key.get(requirement.key, set())
        return self._valued(requirement)

    def _valued(self, requirement: LabelRequirement) -> set[int]:
        pairs = {(requirement.key, value) for value in requirement.values}
        return set[int]().union(*(self._with_pair[each] for each in pairs & self._with_pair.keys()))


_EVERY_ADDRESS: Final = "0.0.0.0"


def violations(plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check placed pods against each other and against running ones, which are not judged among themselves."""
    if not _is_asked(plan, picture):
        return
    room = _Room.of(plan, picture)
    yield from _ports(room)
    yield from _apart(room)
    yield from _together(room)
    yield from _spread(room)


def _is_asked(plan: Plan, picture: Picture) -> bool:
    """Whether any placed pod asks something of others, or any running one keeps others away."""
    placed = (picture.pods.get(placement.pod) for placement in plan.placements)
    asks = any(pod.host_ports or pod.affinity or pod.anti_affinity or pod.spread for pod in placed if pod is not None)
    return asks or any(pod.anti_affinity for pod in picture.snapshot.pods)


@dataclass(slots=True, eq=False)
class _Room:
    """Everybody with a seat. `everyone` is made when the first selector asks."""

    picture: Picture
    arrived: list[Seat] = field(default_factory=list)
    residents: list[Seat] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    crowds: dict[bool, LabelGroups] = field(default_factory=dict)
    counted: dict[tuple[object, ...], dict[str, str]] = field(default_factory=dict)
    """The domain of every node that counts, by what decides that (see `_places`)."""

    @classmethod
    def of(cls, plan: Plan, picture: Picture) -> "_Room":
        found = cls(picture)
        labels = {name: dict(node.labels) for name, node in picture.nodes.items()}
        for placement in plan.placements:
            pod, node = picture.pods.get(placement.pod), picture.nodes.get(placement.node)
            if pod is not None and node is not None:
                found.arrived.append(Seat(pod, node, labels[node.name], is_new=True))
        moved = {seat.pod.uid for seat in found.arrived}
        for pod in picture.snapshot.pods:
            node = picture.nodes.get(pod.node_name)
            if node is not None and pod.uid not in moved:
                found.residents.append(Seat(pod, node, labels[node.name], is_new=False))
        found.namespaces = {each.name: dict(each.labels) for each in picture.snapshot.namespaces}
        return found

    def crowd(self, *, with_residents: bool) -> LabelGroups:
        if with_residents not in self.crowds:
            crowd = self.crowds[with_residents] = LabelGroups()
            for seat in (*self.arrived, *(self.residents if with_residents else ())):
                crowd.add(seat)
        return self.crowds[with_residents]

    def meant(self, term: PodTerm, *, with_residents: bool) -> list[Seat]:
        """Pods that a term is about."""
        named = term.namespaces if term.namespace_selector is None else None
        found = self.crowd(with_residents=with_residents).select(term.selector, named)
        return [seat for group in found if self._includes(term, group[0].pod.id.namespace) for seat in group]

    def is_meant(self, pod: Pod, term: PodTerm) -> bool:
        return self._includes(term, pod.id.namespace) and selected(term.selector, dict(pod.labels))

    def _includes(self, term: PodTerm, namespace: str) -> bool:
        return namespace in term.namespaces or selected(term.namespace_selector, self.namespaces.get(namespace, {}))


def _ports(room: _Room) -> Iterator[Violation]:
    """A port of a node belongs to one pod; one on every address collides with the same one on any."""
    names = {seat.node.name for seat in room.arrived if seat.pod.host_ports}
    taken: defaultdict[str, _Taken] = defaultdict(_Taken)
    for seat in (*(each for each in room.residents if each.node.name in names), *room.arrived):
        node = taken[seat.node.name]
        for port in seat.pod.host_ports if seat.is_new else ():
            holder = node.holder(port)
            if holder is not None:
                message = f"{port.protocol} port {port.port} of node {seat.node.name} belongs to {holder.pod.id}"
                yield broken(Rule.NODE_PORTS, seat.pod.id, message)
        for port in seat.pod.host_ports:
            node.take(port, seat)


@dataclass(slots=True, eq=False)
class _Taken:
    """Ports of one node, by protocol and number, and who has them, by address."""

    by_port: dict[tuple[str, int], dict[str, Seat]] = field(default_factory=dict)
    all_of: Seat | None = None
    """Who may have all of them."""

    def holder(self, port: HostPort) -> Seat | None:
        if self.all_of is not None:
            return self.all_of
        held = self.by_port.get((port.protocol, port.port), {})
        if port.address == _EVERY_ADDRESS:
            return next(iter(held.values()), None)
        return held.get(port.address) or held.get(_EVERY_ADDRESS)

    def take(self, port: HostPort, seat: Seat) -> None:
        if port == EVERY_PORT:
            self.all_of = seat
        else:
            self.by_port.setdefault((port.protocol, port.port), {}).setdefault(port.address, seat)


def _apart(room: _Room) -> Iterator[Violation]:
    """Whoever holds an anti-affinity term shares the domain with nobody else that it is about."""
    holders: defaultdict[PodTerm, list[Seat]] = defaultdict(list)
    values = {pair for seat in room.arrived for pair in seat.labels.items()}
    for seat in (*room.residents, *room.arrived):
        for term in seat.pod.anti_affinity:
            if (term.topology_key, seat.labels.get(term.topology_key)) in values:  # else nobody comes into its domain
                holders[term].append(seat)
    for term, holding in holders.items():
        is_asked = any(seat.is_new for seat in holding)
        near = _Near.of(term.topology_key, room.meant(term, with_residents=is_asked))
        for seat in holding:
            other = near.to(seat)
            if other is not None:
                new, old = (seat, other) if seat.is_new else (other, seat)
                where = f"{term.topology_key}={seat.labels[term.topology_key]}"
                message = f"{where} holds {old.pod.id}, and they have to be apart"
                yield broken(Rule.POD_ANTI_AFFINITY, new.pod.id, message)


@dataclass(slots=True, eq=False)
class _Near:
    """Pods in each domain, and those of them that are new: the first that is not the pod that asks is enough."""

    key: str
    anybody: dict[str, list[Seat]] = field(default_factory=dict)
    new: dict[str, list[Seat]] = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, seats: Iterable[Seat]) -> "_Near":
        found = cls(key)
        for seat in seats:
            value = seat.labels.get(key)
            if value is not None:
                found.anybody.setdefault(value, []).append(seat)
                if seat.is_new:
                    found.new.setdefault(value, []).append(seat)
        return found

    def to(self, seat: Seat) -> Seat | None:
        """Give another pod in the domain of one, a new one where it is not new itself."""
        those = (self.anybody if seat.is_new else self.new).get(seat.labels[self.key], ())
        return next((each for each in those if each.pod.uid != seat.pod.uid), None)


def _together(room: _Room) -> Iterator[Violation]:
    """
    For each of its terms a pod has one in its domain that all of them are about, and not just itself.

    Only where none was there before may one that is about itself be the first: one of all pods with the same terms.
    """
    groups: defaultdict[tuple[PodTerm, ...], list[Seat]] = defaultdict(list)
    for seat in room.arrived:
        if seat.pod.affinity:
            groups[seat.pod.affinity].append(seat)
    for terms, members in groups.items():
        found = room.meant(terms[0], with_residents=True)
        partners = [seat for seat in found if all(room.is_meant(seat.pod, term) for term in terms[1:])]
        own = {seat.pod.uid for seat in members}
        keys = tuple(term.topology_key for term in terms)
        is_first = not any(not seat.is_new and any(key in seat.labels for key in keys) for seat in partners)
        domains = _domains(keys, (seat for seat in partners if seat.pod.uid not in own))
        willing = [seat for seat in partners if seat.pod.uid in own]
        waiting = _lonely(keys, members, domains)
        if waiting and is_first:
            firsts = [seat for seat in waiting if seat in willing and all(key in seat.labels for key in keys)]
            tries = [_lonely(keys, waiting, domains | _domains(keys, (first,))) for first in firsts]
            waiting = min((waiting, *tries), key=len)
        for seat in waiting:
            wanted = ", ".join(f"{key}={seat.labels.get(key, '')}" for key in keys)
            yield broken(Rule.POD_AFFINITY, seat.pod.id, f"no pod that it wants to be with is where {wanted}")


def _domains(keys: tuple[str, ...], seats: Iterable[Seat]) -> set[tuple[int, str]]:
    """Domains, by the position of their term, in which somebody is."""
    return {(position, seat.labels[key]) for seat in seats for position, key in enumerate(keys) if key in seat.labels}


def _lonely(keys: tuple[str, ...], seats: list[Seat], domains: set[tuple[int, str]]) -> list[Seat]:
    """Give those that lack company in one of their domains."""
    return [
        seat
        for seat in seats
        if any((position, seat.labels.get(key)) not in domains for position, key in enumerate(keys))
    ]


class _View(NamedTuple):
    """Everything that decides how a constraint counts."""

    constraint: SpreadConstraint
    namespace: str
    keys: tuple[str, ...]
    pod: Pod


def _spread(room: _Room) -> Iterator[Violation]:
    """A domain that gets a pod has at most maxSkew more pods of its constraint than the one with least."""
    counted: dict[tuple[object, ...], dict[str, int]] = {}
    for seat in room.arrived:
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
                counted[signature] = _counts(room, view)
            counts = counted[signature]
            is_enough = len(counts) >= constraint.min_domains
            skew = counts.get(value, 0) - (min(counts.values(), default=0) if is_enough else 0)
            if skew > constraint.max_skew:
                message = f"{constraint.topology_key}={value} has {skew} pods more than the least of all domains"
                yield broken(Rule.TOPOLOGY_SPREAD, seat.pod.id, message)


def _honoured(constraint: SpreadConstraint, pod: Pod) -> tuple[object, ...]:
    affinity = (pod.node_selector, pod.required_affinity) if constraint.honours_affinity else None
    return affinity, pod.tolerations if constraint.honours_taints else None


def _counts(room: _Room, view: _View) -> dict[str, int]:
    """Pods per domain over nodes that have all of the pod's keys and that its policies let count."""
    constraint, places = view.constraint, _places(room, view)
    found = Counter(dict.fromkeys(places.values(), 0))
    if constraint.selector is not None and constraint.selector.requirements:
        groups = room.crowd(with_residents=True).select(constraint.selector, (view.namespace,))
        for seat in (each for group in groups for each in group):
            if seat.node.name in places and not seat.pod.is_deleting:
                found[places[seat.node.name]] += 1
    return dict(found)


def _places(room: _Room, view: _View) -> dict[str, str]:
    """Give the domains of the nodes that count; the same for all constraints that look at nodes alike."""
    key = view.constraint.topology_key
    alike = (key, view.keys, *_honoured(view.constraint, view.pod))
    if alike not in room.counted:
        room.counted[alike] = {
            node.name: dict(node.labels)[key]
            for node in room.picture.nodes.values()
            if set(view.keys) <= {label for label, _ in node.labels} and _counts_node(room, view, node.name)
        }
    return room.counted[alike]


def _counts_node(room: _Room, view: _View, name: str) -> bool:
    node, pod = room.picture.nodes[name], view.pod
    if view.constraint.honours_affinity:
        labels = dict(node.labels)
        if any(labels.get(key) != value for key, value in pod.node_selector):
            return False
        if pod.required_affinity is not None and not matching.selects(pod.required_affinity, node):
            return False
    return not (view.constraint.honours_taints and any(matching.untolerated(node.taints, pod.tolerations)))
