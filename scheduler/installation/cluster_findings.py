"""What is to be said of the cluster: pods that wait, devices, drivers that publish nothing, pools, other schedulers."""

import datetime as dt
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.installation.findings import Finding, FindingState
from scheduler.kube.pod_writes import PendingPod
from scheduler.simulation import printing, queue_listing
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.simulation.printing import counted
from scheduler.status.waiting_pods import waiting_pod
from solver.domain import NodeSelectorTerm, OwnedDevices
from solver.domain.fleet import DeviceState, FleetDevice, UnusableCause

_MOST_NAMED: Final = 4
"""Nodes or pools that a sentence names."""


class DriverDevices(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    How many devices of a driver are in each state; those that another scheduler owns are counted apart.

    `tainted` are those with a taint that keeps claims away, whatever their state: also those that are held.
    """

    driver: str
    total: int
    held: int
    shared: int
    free: int
    blocked: int
    unusable: int
    not_owned: int
    tainted: int


class WaitingSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How many pods wait, and the oldest of them that has no scheduling gate."""

    waiting: int = 0
    gated: int = 0
    oldest: str = ""
    since: str = ""
    reason: str = ""


class ClusterPart(NamedTuple):
    """What is known of the cluster; `waiting` is None where pods may not be listed."""

    devices: tuple[DriverDevices, ...]
    waiting: WaitingSummary | None
    findings: tuple[Finding, ...]


def of_cluster(
    fleet: FleetAnswer,
    now: dt.datetime,
    *,
    names: Collection[str],
    served: Collection[str] | None = None,
    class_drivers: Mapping[str, tuple[str, ...]],
    group_label: str,
    owned: OwnedDevices = OwnedDevices(),  # noqa: B008 - a frozen value
) -> ClusterPart:
    """
    Judge a cluster in which schedulers of some names place pods on the devices that are `owned`.

    `served` are the names that any Dovetail serves, None: not known. `class_drivers` are the drivers that DeviceClasses
    name. Nodes with the same value of `group_label` are of one type.
    """
    devices = _by_driver(fleet.fleet.devices) if fleet.knows_holders else ()
    waiting = None if fleet.waiting is None else _summary(fleet.waiting, names)
    found = [
        *_queue(waiting, now),
        *_unserved(fleet.waiting or (), served or (), now),
        *_devices(devices, fleet),
        *_nothing_owned(devices, fleet, owned),
        *_class_drivers(fleet, class_drivers),
        *_silent_nodes(fleet, group_label),
        *_pools(fleet),
        *_quotas(fleet),
        *_other_schedulers(fleet, names),
    ]
    return ClusterPart(devices, waiting, tuple(found))


def _by_driver(devices: Sequence[FleetDevice]) -> tuple[DriverDevices, ...]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    tainted: Counter[str] = Counter()
    for device in devices:
        is_ours = all(each.cause is not UnusableCause.NOT_OWNED for each in device.problems)
        found[device.id.driver][device.state.value if is_ours else UnusableCause.NOT_OWNED.value] += 1
        tainted[device.id.driver] += is_ours and device.is_tainted
    return tuple(
        DriverDevices(
            driver=driver,
            total=counts.total(),
            held=counts[DeviceState.HELD],
            shared=counts[DeviceState.SHARED],
            free=counts[DeviceState.FREE],
            blocked=counts[DeviceState.BLOCKED],
            unusable=counts[DeviceState.UNUSABLE],
            not_owned=counts[UnusableCause.NOT_OWNED],
            tainted=tainted[driver],
        )
        for driver, counts in sorted(found.items())
    )


def _summary(waiting: Sequence[PendingPod], names: Collection[str]) -> WaitingSummary:
    ours = [each for each in waiting if each.pod.scheduler_name in names]
    ready = [each for each in ours if not each.pod.scheduling_gates]
    if not ready:
        return WaitingSummary(waiting=len(ours), gated=len(ours))
    oldest = min(ready, key=lambda each: (each.pod.creation, each.pod.id))
    shown = waiting_pod(oldest, None)
    return WaitingSummary(
        waiting=len(ours),
        gated=len(ours) - len(ready),
        oldest=str(oldest.pod.id),
        since=oldest.pod.creation,
        reason=shown.reason,
    )


def _queue(waiting: WaitingSummary | None, now: dt.datetime) -> Iterator[Finding]:
    if waiting is None:
        yield Finding(FindingState.UNKNOWN, "queue", "you may not list pods")
    elif not waiting.waiting:
        yield Finding(FindingState.OK, "queue", "no pod waits")
    else:
        gated = f", {waiting.gated} of them with scheduling gates" if waiting.gated else ""
        text = f"{counted(waiting.waiting, 'pod')} {printing.waits(waiting.waiting)}{gated}"
        step = ""
        if waiting.oldest:
            text += f"; the oldest is {waiting.oldest}, for {printing.age(waiting.since, now)} ({waiting.reason})"
            namespace, _, name = waiting.oldest.partition("/")
            step = f"dovetail explain pod/{name} -n {namespace}"
        yield Finding(FindingState.OK, "queue", text, step)


def _unserved(waiting: Sequence[PendingPod], served: Collection[str], now: dt.datetime) -> Iterator[Finding]:
    """Find pods whose schedulerName no scheduler serves, as `dovetail queue` does: the names of most of them."""
    found = queue_listing.unserved_pods(waiting, served, now) if served else ()
    ordered = sorted(found, key=lambda each: -each.pods)
    for each in ordered[:_MOST_NAMED]:
        step = f"kubectl get pods -A --field-selector {shlex.quote(f'spec.schedulerName={each.scheduler_name}')}"
        yield Finding(FindingState.WARNING, "queue", str(each).removesuffix("."), step)
    rest = ordered[_MOST_NAMED:]
    if rest:
        pods = sum(each.pods for each in rest)
        text = f"{counted(pods, 'pod')} {printing.waits(pods)} with {len(rest)} more such schedulerNames"
        yield Finding(FindingState.WARNING, "queue", text, "dovetail queue -A")


def _devices(devices: Sequence[DriverDevices], fleet: FleetAnswer) -> Iterator[Finding]:
    if not fleet.knows_holders:
        yield Finding(FindingState.UNKNOWN, "devices", "you may not list resourceclaims, which say what is held")
    elif not devices:
        step = "install the driver of your devices; kubectl get resourceslices"
        yield Finding(FindingState.WARNING, "devices", "no ResourceSlice publishes a device", step)
    for each in devices:
        counts = {
            "held": each.held,
            "shared": each.shared,
            "free": each.free,
            "blocked": each.blocked,
            "unusable": each.unusable,
            "left to another scheduler": each.not_owned,
        }
        states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        tainted = f"; {each.tainted} of them tainted" if each.tainted else ""
        text = f"driver {each.driver}: {counted(each.total, 'device')}, {states}{tainted}"
        if each.unusable or each.tainted:
            yield Finding(FindingState.WARNING, "devices", text, "dovetail devices --problems")
        else:
            yield Finding(FindingState.OK, "devices", text)


def _nothing_owned(devices: Sequence[DriverDevices], fleet: FleetAnswer, owned: OwnedDevices) -> Iterator[Finding]:
    """Find a configuration that leaves all devices to another scheduler."""
    total = sum(each.total for each in devices)
    if not total or any(each.not_owned < each.total for each in devices):
        return
    text = f"Dovetail owns none of {counted(total, 'device')}: devices.owned wants {owned.wanted}"
    nodes = (node for term in owned.node_terms for node in _nodes_with(fleet, term))
    published = [each.driver for each in devices]
    if owned.drivers and not set(owned.drivers) & set(published):
        step = f"write a driver that publishes devices into devices.owned.drivers: {', '.join(published)}"
        yield Finding(FindingState.WARNING, "devices", f"{text}, and no such driver publishes any", step)
    elif next(nodes, None) is None:
        step = f"kubectl label node NAME {owned.node_labels.replace(',', ' ')}"
        them = "these labels" if "," in owned.node_labels else "it"
        yield Finding(FindingState.WARNING, "devices", f"{text}, and no node has {them}", step)
    else:
        step = "kubectl get resourceslices"
        yield Finding(FindingState.WARNING, "devices", f"{text}, and these publish none", step)


def _nodes_with(fleet: FleetAnswer, term: NodeSelectorTerm) -> Iterator[str]:
    """Return the nodes that have the labels of a term."""
    for name, labels in fleet.node_labels.items():
        if all(labels.get(each.key) in each.values for each in term.match_expressions):
            yield name


def _class_drivers(fleet: FleetAnswer, class_drivers: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    published = {device.id.driver for device in fleet.fleet.devices if _is_published(device)}
    for driver, classes in class_drivers.items():
        if driver not in published:
            text = f"{driver} publishes no device, and DeviceClass {', '.join(classes)} needs it"
            step = "is the driver installed, and do its pods run? kubectl get resourceslices"
            yield Finding(FindingState.WARNING, "drivers", text, step)


def _silent_nodes(fleet: FleetAnswer, group_label: str) -> Iterator[Finding]:
    """Find nodes on which a driver publishes nothing, of a type of which other nodes have its devices."""
    nodes: dict[str, set[str]] = defaultdict(set)
    for device in fleet.fleet.devices:
        if device.node and _is_published(device):
            nodes[device.id.driver].add(device.node)
    groups = {name: labels.get(group_label, "") for name, labels in fleet.node_labels.items()}
    for driver, having in sorted(nodes.items()):
        types = {groups.get(name, "") for name in having} - {""}
        silent = sorted(name for name, group in groups.items() if group in types and name not in having)
        if silent:
            text = (
                f"{driver} publishes nothing on {_named(silent)}: {counted(len(silent), 'node')} of a type whose other "
                "nodes have its devices"
            )
            step = f"kubectl get pods -A -o wide --field-selector spec.nodeName={silent[0]}"
            yield Finding(FindingState.WARNING, "drivers", text, step)


def _is_published(device: FleetDevice) -> bool:
    return all(each.cause is not UnusableCause.UNPUBLISHED for each in device.problems)


def _pools(fleet: FleetAnswer) -> Iterator[Finding]:
    pools = fleet.fleet.pools
    if pools:
        text = "; ".join(f"{each.id}: {each.message}" for each in pools[:_MOST_NAMED])
        more = f"; and {len(pools) - _MOST_NAMED} more" if len(pools) > _MOST_NAMED else ""
        step = "restart the driver's pod on the node if it does not publish the rest"
        yield Finding(FindingState.WARNING, "pools", f"no claim gets devices of {text}{more}", step)
    for name in fleet.fleet.broken_classes:
        text = f"DeviceClass {name} matches nothing: its selectors cannot be read"
        yield Finding(FindingState.WARNING, "classes", text, f"kubectl get deviceclass {name} -o yaml")


def _quotas(fleet: FleetAnswer) -> Iterator[Finding]:
    """Find quotas that contradict themselves, another one or the fleet."""
    for quota in fleet.quotas or ():
        for each in quota.findings:
            step = f"kubectl edit devicequota {quota.quota}"
            yield Finding(FindingState.WARNING, "quotas", f"{quota.quota} is not valid: {each.message}", step)


def _other_schedulers(fleet: FleetAnswer, names: Collection[str]) -> Iterator[Finding]:
    for name, count in other_schedulers(fleet, names).items():
        text = (
            f"pods of {name} hold {counted(count, 'device')} that Dovetail allocates too. The API server does not "
            "check that a device is given out once"
        )
        yield Finding(FindingState.WARNING, "schedulers", text, "docs/installing.md, “Beside kube-scheduler”")


def other_schedulers(fleet: FleetAnswer, names: Collection[str]) -> dict[str, int]:
    """
    Return the schedulers whose pods hold devices that Dovetail allocates too, with the number of these devices.

    Both could give out the same device.
    """
    schedulers = {pod.id: pod.scheduler_name for pod in fleet.pods}
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for device in fleet.fleet.devices:
        if any(each.cause is UnusableCause.NOT_OWNED for each in device.problems):
            continue
        for holder in device.holders:
            users = {schedulers[pod] for pod in holder.pods if pod in schedulers}
            for name in (users - set(names)) if not users & set(names) and not holder.admin_access else ():
                found[name].add(tuple(device.id))
    return {name: len(devices) for name, devices in sorted(found.items())}


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
