"""
Builders of rules between pods: selectors, terms, spread constraints, host ports, and pods that have them.

    neighbour("web-1", app="web", anti_affinity=[term("zone", app="web")])
    zoned("n1", "a")
"""

from collections.abc import Sequence

from msgspec.structs import replace

from solver.domain import (
    ANY_ADDRESS,
    HostPort,
    LabelRequirement,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from tests.support import builders as b

ZONE = "zone"
HOST = "kubernetes.io/hostname"


def requirement(key: str, operator: str, *values: str) -> LabelRequirement:
    return LabelRequirement(key=key, operator=operator, values=values)


def selector(*requirements: LabelRequirement, **labels: str) -> LabelSelector:
    """Labels that must have these values, and further requirements; without any it selects everything."""
    equal = (requirement(key, "In", value) for key, value in labels.items())
    return LabelSelector(requirements=(*equal, *requirements))


def term(
    key: str = HOST,
    *requirements: LabelRequirement,
    namespaces: Sequence[str] = (b.NAMESPACE,),
    of: LabelSelector | None = None,
    **labels: str,
) -> PodAffinityTerm:
    """A term about pods with labels; `of` selects namespaces."""
    return PodAffinityTerm(
        topology_key=key,
        selector=selector(*requirements, **labels),
        namespaces=tuple(namespaces),
        namespace_selector=of,
    )


def spread(
    key: str = ZONE,
    skew: int = 1,
    *,
    domains: int = 1,
    honours_affinity: bool = True,
    honours_taints: bool = False,
    required: bool = True,
    **labels: str,
) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        topology_key=key,
        max_skew=skew,
        is_required=required,
        selector=selector(**labels),
        min_domains=domains,
        honours_affinity=honours_affinity,
        honours_taints=honours_taints,
    )


def port(number: int, address: str = ANY_ADDRESS, protocol: str = "TCP") -> HostPort:
    return HostPort(address=address, protocol=protocol, port=number)


def neighbour(
    name: str,
    *claims: str,
    app: str = "",
    on: str = "",
    namespace: str = b.NAMESPACE,
    priority: int = 0,
    cpu: int = 0,
    ports: Sequence[HostPort] = (),
    affinity: Sequence[PodAffinityTerm] = (),
    anti_affinity: Sequence[PodAffinityTerm] = (),
    spread: Sequence[TopologySpreadConstraint] = (),
    node_selector: dict[str, str] | None = None,
    is_deleting: bool = False,
    **labels: str,
) -> Pod:
    """A pod with the label `app`, where it is given, and rules; it runs `on` a node or waits."""
    made = b.pod(
        name,
        *claims,
        namespace=namespace,
        node_name=on,
        priority=priority,
        cpu=cpu,
        labels={**labels, **({"app": app} if app else {})},
        node_selector=node_selector,
        is_deleting=is_deleting,
    )
    return replace(
        made,
        host_ports=tuple(ports),
        affinity=tuple(affinity),
        anti_affinity=tuple(anti_affinity),
        spread=tuple(spread),
    )


def zoned(name: str, zone: str = "", *, cpu: int = 64, **labels: str) -> Node:
    """A node with its hostname label, and a zone where one is given."""
    return b.node(name, cpu=cpu, labels={HOST: name, **({ZONE: zone} if zone else {}), **labels})
