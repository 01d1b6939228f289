"""
What the fleet tells of a device beside its state: its product, its holders, and what it has from its node.

- `product_of`: the product that a device is, and the card that it is a part of, from attributes with which drivers name
  them;
- `holders_of`: the results of all allocated claims, with pods, shares and the time of allocation;
- `NodeFacts`: group, domain, and why no pod can use devices there; `NodeReach`: of a device that several nodes see.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from solver.domain import Claim, ConsumerReference, Device, DeviceId, Node, PodId, Policy, Snapshot
from solver.domain.fleet import DeviceHolder, DeviceProblem, SinceSource, UnusableCause
from solver.rules.taints.values import NOT_READY_TAINTS

_PRODUCTS: Final = ("productName", "model", "pciDevice", "type")
"""Attributes with or without a domain; the first that a device has counts."""
_PROFILES: Final = ("profile", "partitionProfile")
_NETWORK: Final = frozenset({"ifName", "mac", "rdmaDevice"})
"""Attributes of network cards, as DRANET and the drivers of vendors publish them."""
_PARENT: Final = "parentUUID"
"""The whole device that a partition was cut from, as NVIDIA's driver publishes it."""
_name: Final = itemgetter(0)

Holders = Mapping[DeviceId, tuple[DeviceHolder, ...]]


class Product(NamedTuple):
    """
    A product with the profile of a partition, and the name of the partition's parent; empty where not published.

    `is_network` says that the device is a network card.
    """

    name: str
    parent: str
    is_network: bool = False


def product_of(device: Device) -> Product:
    """Return the product that a device publishes."""
    attributes = device.attributes
    parts, parent, is_network = _places(tuple(map(_name, attributes)))
    name = " ".join([str(attributes[position][1].value) for position in parts])
    return Product(name, str(attributes[parent][1].value) if parent >= 0 else "", is_network)


@lru_cache(maxsize=1024)
def _places(names: tuple[str, ...]) -> tuple[tuple[int, ...], int, bool]:
    """
    Return the positions of the attributes that name product and profile, and of that of the parent, -1 without one.

    The last value says whether these are the attributes of a network card. Thousands of devices have the same ones.
    """
    products, profiles, parent = dict[int, int](), dict[int, int](), -1
    for position, name in enumerate(names):
        bare = name.rpartition("/")[2]
        if bare == _PARENT:
            parent = position
        elif bare in _PRODUCTS:
            products[_PRODUCTS.index(bare)] = position
        elif bare in _PROFILES:
            profiles[_PROFILES.index(bare)] = position
    is_network = any(name.rpartition("/")[2] in _NETWORK for name in names)
    return tuple(found[min(found)] for found in (products, profiles) if found), parent, is_network


def holders_of(snapshot: Snapshot, pod_uids: Collection[str] | None = None) -> Holders:
    """
    Return the holders of every device that some claim has, in the order of the claims.

    `pod_uids` are those of all pods that exist; None where this is not known.
    """
    started = {pod.uid: pod.started for pod in snapshot.pods if pod.started}
    found: defaultdict[DeviceId, list[DeviceHolder]] = defaultdict(list)
    for claim in snapshot.claims:
        if claim.allocation is None:
            continue
        since, source = _since(claim, started)
        uids = {PodId(claim.id.namespace, each.name): each.uid for each in claim.reserved_for if _is_pod(each)}
        gone = tuple(pod for pod, uid in uids.items() if pod_uids is not None and uid not in pod_uids)
        others = tuple(f"{each.resource}/{each.name}" for each in claim.reserved_for if not _is_pod(each))
        for result in claim.allocation.results:
            found[result.device].append(
                DeviceHolder(
                    claim=claim.id,
                    pods=tuple(uids),
                    gone=gone,
                    consumers=others,
                    request=result.request,
                    share_id=result.share_id,
                    consumed=tuple((name, amount.nano) for name, amount in result.consumed_capacity),
                    since=since,
                    since_source=source,
                    admin_access=result.admin_access,
                )
            )
    return {device: tuple(each) for device, each in found.items()}


def _is_pod(consumer: ConsumerReference) -> bool:
    return consumer.resource == "pods" and not consumer.api_group


def _since(claim: Claim, started: Mapping[str, int]) -> tuple[str, SinceSource]:
    """Return when a claim was allocated; without a time stamp, when the first of its pods started at the latest."""
    if claim.allocation is not None and claim.allocation.allocation_timestamp:
        return claim.allocation.allocation_timestamp, SinceSource.ALLOCATION
    seconds = min((started[each.uid] for each in claim.reserved_for if each.uid in started), default=0)
    if not seconds:
        return "", SinceSource.UNKNOWN
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), SinceSource.POD


class NodeFacts:
    """What devices of a node have in common: its group, its domain, and why it takes no pod."""

    __slots__ = ("domain", "group", "name", "names", "problems")

    def __init__(self, node: Node, labels: Mapping[str, str], policy: Policy, group_label: str) -> None:
        self.name: Final = node.name
        self.names: Final = (node.name,)
        self.group: Final = labels.get(group_label, "")
        self.domain: Final = next((labels[label] for label in policy.group_labels if label in labels), "")
        self.problems: Final = tuple(_node_problems(node))


def _node_problems(node: Node) -> Iterator[DeviceProblem]:
    if any(taint.key in NOT_READY_TAINTS for taint in node.taints):
        yield DeviceProblem(UnusableCause.NODE_NOT_READY, f"node {node.name} is not ready")
    if node.is_unschedulable:
        yield DeviceProblem(UnusableCause.NODE_CORDONED, f"node {node.name} is cordoned")


class NodeReach(NamedTuple):
    """The nodes that see a device, None for all of them; those that take pods; and the problem if none does."""

    names: tuple[str, ...] | None
    open_names: tuple[str, ...] | None
    problems: tuple[DeviceProblem, ...]

    @classmethod
    def of(cls, nodes: Sequence[NodeFacts], *, is_everywhere: bool) -> "NodeReach":
        """Collect what some nodes say of a device that all of them see."""
        names = None if is_everywhere else tuple(each.name for each in nodes)
        open_names = None if is_everywhere else tuple(each.name for each in nodes if not each.problems)
        return cls(names, open_names, _common_problem([each.problems for each in nodes]))


def _common_problem(of_nodes: Sequence[tuple[DeviceProblem, ...]]) -> tuple[DeviceProblem, ...]:
    """Return the problem of a device that several nodes see, if every one of them has a problem."""
    if not all(of_nodes):
        return ()
    if not of_nodes:
        return (DeviceProblem(UnusableCause.NODE_GONE, "the cluster has no node"),)
    first = of_nodes[0][0]
    more = ", and no other of its nodes takes pods"
    return (DeviceProblem(first.cause, f"{first.message}{more if len(of_nodes) > 1 else ''}"),)
