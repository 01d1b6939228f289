"""Questions of callers about the fleet, and the documents that answer them."""

from enum import StrEnum

import msgspec

from scheduler.visibility import HiddenCounts, VisibleNamespaces
from solver.domain.fleet import FleetDevice, FleetQuery, GroupedSupply, Grouping, RequestSize, UnusablePool


class FleetDocumentKind(StrEnum):
    """What a document is about."""

    DEVICES = "Devices"
    FREE = "Free"


class FleetQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """
    A question: about the devices themselves, or about groups of them (`by`).

    `node_group_label` is the node label whose values are groups of nodes; `claims` are the namespaces whose claims the
    caller may list; at most `limit` devices are listed.
    """

    api_version: str
    kind: FleetDocumentKind
    query: FleetQuery
    by: tuple[Grouping, ...]
    node_group_label: str
    claims: VisibleNamespaces
    limit: int


class FleetDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    The document: `items` for a question about devices, `supply` and `sizes` for one about groups of them.

    `pools` and `broken_classes` are what cannot be used, as in `Fleet`. `hidden` counts the devices of the answer that
    claims hold which the caller may not list, and their namespaces. Without `has_node` the node that was asked for
    does not exist. `age_seconds` is how long ago the document was made, where the solver had no time for a newer one.
    """

    api_version: str
    kind: FleetDocumentKind
    age_seconds: float = 0.0
    truncated: bool = False
    has_node: bool = True
    hidden: HiddenCounts = HiddenCounts()
    items: tuple[FleetDevice, ...] = ()
    supply: GroupedSupply | None = None
    sizes: tuple[RequestSize, ...] = ()
    pools: tuple[UnusablePool, ...] = ()
    broken_classes: tuple[str, ...] = ()
