"""
Host ports, pod affinity and anti-affinity, topology spread and preferred node affinity of pods.

Every decision evaluates these terms, so their cost is limited: the number of terms or constraints, and the number of
requirements, values and namespaces in them. A pod above a limit is refused with a message that names the limit.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.kube.decode.shared_fields import (
    LabelSelectorWire,
    MalformedError,
    NodeSelectorTermWire,
    Wire,
    label_selector,
)
from solver.domain import (
    ANY_ADDRESS,
    HostPort,
    LabelRequirement,
    LabelSelector,
    LabelSelectorOperator,
    NodeSelectorTerm,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

_MOST_PORTS: Final = 256
"""Host ports of a pod."""


class TermCost(NamedTuple):
    """Number of terms or constraints, and of the requirements, values and namespaces in them."""

    terms: int = 0
    parts: int = 0

    def plus(self, other: "TermCost") -> "TermCost":
        """Add two costs."""
        return TermCost(self.terms + other.terms, self.parts + other.parts)

    def fits(self, bound: "TermCost") -> bool:
        """Whether neither number is above that of a bound."""
        return self.terms <= bound.terms and self.parts <= bound.parts


_OWN_NAMESPACE: Final = TermCost(64, 1_000)
"""The limit of terms about the pod's own namespace."""
_CROSS_NAMESPACE: Final = TermCost(16, 128)
"""The limit of terms about other namespaces, which decisions about their pods evaluate too."""


def _cost(terms: Iterable[PodAffinityTerm | TopologySpreadConstraint]) -> TermCost:
    """Add up terms or constraints."""
    sizes = [_size(each) for each in terms]
    return TermCost(len(sizes), sum(sizes))


def _size(term: PodAffinityTerm | TopologySpreadConstraint) -> int:
    if isinstance(term, TopologySpreadConstraint):
        return _selector_cost(term.selector)
    return len(term.namespaces) + _selector_cost(term.selector) + _selector_cost(term.namespace_selector)


def _selector_cost(selector: LabelSelector | None) -> int:
    return sum(1 + len(each.values) for each in selector.requirements) if selector is not None else 0


def _refuse_above(
    bound: TermCost, field: str, what: str, found: Sequence[PodAffinityTerm | TopologySpreadConstraint]
) -> None:
    """Raise MalformedError for terms above a limit."""
    given = _cost(found)
    if not given.fits(bound):
        message = (
            f"{given.terms} {what} with {given.parts} requirements, values and namespaces are above the limit: "
            f"use at most {bound.terms} {what} with {bound.parts} of these together"
        )
        raise MalformedError(field, message)


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_EVERYTHING: Final = LabelSelector()
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class PortWire(Wire, frozen=True):
    """core/v1 ContainerPort."""

    host_port: int = msgspec.field(name="hostPort", default=0)
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class TermWire(Wire, frozen=True):
    """core/v1 PodAffinityTerm."""

    topology_key: str
    label_selector: LabelSelectorWire | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelectorWire | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedTermWire(Wire, frozen=True):
    """core/v1 WeightedPodAffinityTerm."""

    pod_affinity_term: TermWire
    weight: int = 0


class PodAffinityWire(Wire, frozen=True):
    """core/v1 PodAffinity and PodAntiAffinity."""

    required: list[TermWire] | None = msgspec.field(name=_REQUIRED, default=None)
    preferred: list[WeightedTermWire] | None = msgspec.field(name=_PREFERRED, default=None)


class PreferredNodeWire(Wire, frozen=True):
    """core/v1 PreferredSchedulingTerm."""

    weight: int = 0
    preference: NodeSelectorTermWire = NodeSelectorTermWire()


class SpreadWire(Wire, frozen=True):
    """core/v1 TopologySpreadConstraint."""

    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = ""
    label_selector: LabelSelectorWire | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class TermOwner(msgspec.Struct, frozen=True):
    """Namespace and labels of the pod that terms belong to."""

    namespace: str
    labels: Mapping[str, str]


def host_ports(wire: Iterable[PortWire]) -> tuple[HostPort, ...]:
    """
    Convert the host ports of containers that run as long as the pod, each once.

    Raises MalformedError above the limit.
    """
    found = dict.fromkeys(
        HostPort(address=each.host_ip or ANY_ADDRESS, protocol=each.protocol or "TCP", port=each.host_port)
        for each in wire
        if each.host_port > 0
    )
    if len(found) > _MOST_PORTS:
        message = f"{len(found)} host ports are above the limit: use at most {_MOST_PORTS}"
        raise MalformedError("spec.containers.ports", message)
    return tuple(found)


def affinity(wire: PodAffinityWire | None, subject: TermOwner) -> tuple[PodAffinityTerm, ...]:
    """Convert required pod affinity. Raises MalformedError above the limit."""
    terms = _required(wire, subject)
    _refuse_above_limits(f"spec.affinity.podAffinity.{_REQUIRED}", terms, subject)
    return terms


def anti_affinity(wire: PodAffinityWire | None, subject: TermOwner, *, is_bound: bool) -> tuple[PodAffinityTerm, ...]:
    """
    Convert required pod anti-affinity. Raises MalformedError above the limit for a pod without a node.

    The terms of a bound pod are widened instead, to every pod of the namespaces by the first topology keys: they forbid
    at least what they did, and cost other pods' decisions little.
    """
    terms = _required(wire, subject)
    if not is_bound:
        _refuse_above_limits(f"spec.affinity.podAntiAffinity.{_REQUIRED}", terms, subject)
        return terms
    own = [term for term in terms if not _is_cross_namespace(term, subject)]
    wide = [term for term in terms if _is_cross_namespace(term, subject)]
    return (*_bounded(own, _OWN_NAMESPACE, subject), *_bounded(wide, _CROSS_NAMESPACE, subject))


def _bounded(terms: list[PodAffinityTerm], bound: TermCost, subject: TermOwner) -> Iterable[PodAffinityTerm]:
    """Return the terms, or widened ones up to the limit."""
    if _cost(terms).fits(bound):
        return terms
    return tuple(dict.fromkeys(_widened(term, subject) for term in terms))[: bound.terms]


def _refuse_above_limits(field: str, terms: tuple[PodAffinityTerm, ...], subject: TermOwner) -> None:
    own = [term for term in terms if not _is_cross_namespace(term, subject)]
    other = [term for term in terms if _is_cross_namespace(term, subject)]
    _refuse_above(_OWN_NAMESPACE, field, "terms", own)
    _refuse_above(_CROSS_NAMESPACE, field, "terms about other namespaces", other)


def _is_cross_namespace(term: PodAffinityTerm, subject: TermOwner) -> bool:
    """Whether a term is about pods of other namespaces too."""
    return term.namespace_selector is not None or not {subject.namespace}.issuperset(term.namespaces)


def _widened(term: PodAffinityTerm, subject: TermOwner) -> PodAffinityTerm:
    if _is_cross_namespace(term, subject):
        return PodAffinityTerm(topology_key=term.topology_key, selector=_EVERYTHING, namespace_selector=_EVERYTHING)
    return PodAffinityTerm(topology_key=term.topology_key, selector=_EVERYTHING, namespaces=(subject.namespace,))


def _required(wire: PodAffinityWire | None, subject: TermOwner) -> tuple[PodAffinityTerm, ...]:
    return tuple(_term(each, subject) for each in wire.required or ()) if wire is not None else ()


def preferred_terms(wire: PodAffinityWire | None, subject: TermOwner) -> tuple[WeightedPodAffinityTerm, ...]:
    """Convert preferred terms; above the limit those of the largest weights that fit."""
    given = (wire.preferred or ()) if wire is not None else ()
    terms = [WeightedPodAffinityTerm(weight=each.weight, term=_term(each.pod_affinity_term, subject)) for each in given]
    chosen, sums = set[int](), {_OWN_NAMESPACE: TermCost(), _CROSS_NAMESPACE: TermCost()}
    for position, each in sorted(enumerate(terms), key=lambda item: -item[1].weight):
        bound = _CROSS_NAMESPACE if _is_cross_namespace(each.term, subject) else _OWN_NAMESPACE
        after = sums[bound].plus(_cost([each.term]))
        if after.fits(bound):
            sums[bound] = after
            chosen.add(position)
    return tuple(each for position, each in enumerate(terms) if position in chosen)


def spread(wire: Iterable[SpreadWire], subject: TermOwner) -> tuple[TopologySpreadConstraint, ...]:
    """
    Convert constraints of either kind; missing policies have the API's defaults (Honor, Ignore).

    Raises MalformedError above the limit.
    """
    found = tuple(
        TopologySpreadConstraint(
            topology_key=each.topology_key,
            max_skew=each.max_skew,
            is_required=each.when_unsatisfiable != "ScheduleAnyway",
            selector=_merged(each.label_selector, subject, each.match_label_keys or (), ()),
            min_domains=each.min_domains or 1,
            honours_affinity=each.node_affinity_policy != "Ignore",
            honours_taints=each.node_taints_policy == "Honor",
        )
        for each in wire
    )
    _refuse_above(_OWN_NAMESPACE, "spec.topologySpreadConstraints", "constraints", found)
    return found


def preferred_nodes(wire: Iterable[PreferredNodeWire]) -> tuple[tuple[int, NodeSelectorTerm], ...]:
    """Convert preferred node affinity: (weight, term) pairs."""
    return tuple(
        (
            each.weight,
            NodeSelectorTerm(
                match_expressions=each.preference.match_expressions or (),
                match_fields=each.preference.match_fields or (),
            ),
        )
        for each in wire
    )


def _term(wire: TermWire, subject: TermOwner) -> PodAffinityTerm:
    names = wire.namespaces or ()
    if not names and wire.namespace_selector is None:
        names = (subject.namespace,)
    return PodAffinityTerm(
        topology_key=wire.topology_key,
        selector=_merged(wire.label_selector, subject, wire.match_label_keys or (), wire.mismatch_label_keys or ()),
        namespaces=names,
        namespace_selector=label_selector(wire.namespace_selector),
    )


def _merged(
    wire: LabelSelectorWire | None, subject: TermOwner, match: tuple[str, ...], mismatch: tuple[str, ...]
) -> LabelSelector | None:
    """
    Apply matchLabelKeys and mismatchLabelKeys by the pod's own labels, where the API server has not done so already.

    The API server refuses keys that the selector has itself. So a requirement of such a key and operator was added by
    the API server at creation, and counts. Keys that the pod's labels lack are left out.
    """
    selector = label_selector(wire)
    if selector is None:
        return None
    has = {(each.key, each.operator) for each in selector.requirements}
    asked = [(key, LabelSelectorOperator.IN) for key in match]
    asked += [(key, LabelSelectorOperator.NOT_IN) for key in mismatch]
    added = tuple(
        LabelRequirement(key=key, operator=operator, values=(subject.labels[key],))
        for key, operator in asked
        if key in subject.labels and (key, operator) not in has
    )
    return LabelSelector(requirements=(*selector.requirements, *added)) if added else selector
