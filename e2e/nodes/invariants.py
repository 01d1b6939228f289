"""
What holds on real nodes at any time: no device is prepared for two claims, and claims, drivers and containers agree.

By the drivers' logs and by what containers printed: what a kubelet and a driver did, not what the API server has.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from e2e.controlplane.plane import ControlPlane
from e2e.nodes.node import Node
from e2e.nodes.records import Call, Container, PreparedDevice

SETTLE_SECONDS: Final = 3.0
"""For how long a problem must be there: pod, claim and container are not read at one moment."""
PAUSE_SECONDS: Final = 0.2

Json = dict[str, Any]


def audit(plane: ControlPlane, nodes: Iterable[Node], *, others: Collection[str] = ()) -> list[str]:
    """
    Return what is wrong, empty where nothing is.

    A device that was prepared for two claims at once stays a problem. Any other problem must last for some seconds.
    `others` are namespaces whose pods have another image, and so do not print what they were given.
    """
    boots = (calls for node in nodes for driver in node.drivers for calls in node.boots(driver))
    twice = [each for calls in boots for each in prepared_twice(calls)]
    return [*twice, *lasting(lambda: disagreements(plane, nodes, others))]


def lasting(find: Callable[[], Iterable[str]]) -> list[str]:
    """Return what is found each time for some seconds, empty as soon as nothing is left of it."""
    end = time.monotonic() + SETTLE_SECONDS
    found = list(find())
    while found and time.monotonic() < end:
        time.sleep(PAUSE_SECONDS)
        again = set(find())
        found = [each for each in found if each in again]
    return found


def prepared_twice(calls: Iterable[Call]) -> Iterator[str]:
    """Say of one driver's calls in one boot which devices were prepared for a claim while another had them prepared."""
    holders: dict[tuple[str, str], dict[str, PreparedDevice]] = {}
    names: dict[str, str] = {}
    for call in calls:
        names[call.uid] = f"{call.namespace}/{call.name} ({call.uid})"
        if call.call == "unprepare" and not call.error:
            for claims in holders.values():
                claims.pop(call.uid, None)
        if call.call != "prepare" or call.error:
            continue
        for device in call.devices:
            claims = holders.setdefault((device.pool, device.device), {})
            for other, held in claims.items():
                if other != call.uid and not _may_share(device, held):
                    place = f"{device.pool}/{device.device}"
                    yield f"{place} was prepared for {names[call.uid]} at {call.time}, and {names[other]} still had it"
            claims[call.uid] = device


def _may_share(one: PreparedDevice, other: PreparedDevice) -> bool:
    """Say whether two claims may have the device: admin access takes nothing, and shares of one device differ."""
    return one.admin or other.admin or bool(one.share and other.share and one.share != other.share)


def prepared(calls: Iterable[Call]) -> dict[str, tuple[PreparedDevice, ...]]:
    """Return what one driver has prepared now, by the claim's UID."""
    found: dict[str, tuple[PreparedDevice, ...]] = {}
    for call in calls:
        if call.error:
            continue
        found.pop(call.uid, None)
        if call.call == "prepare":
            found[call.uid] = call.devices
    return found


def disagreements(plane: ControlPlane, nodes: Iterable[Node], others: Collection[str] = ()) -> list[str]:
    """
    Compare what drivers have prepared, and what running containers have, with what claims have allocated, once.

    Raises RequestError or OSError.
    """
    claims: list[Json] = plane.request("GET", "/apis/resource.k8s.io/v1/resourceclaims")["items"]
    by_uid = {each["metadata"]["uid"]: each for each in claims}
    found: list[str] = []
    for node in nodes:
        for driver in node.drivers:
            for uid, devices in prepared(node.boots(driver)[-1]).items():
                if uid in by_uid:
                    found += _wrong_preparation(by_uid[uid], (driver, node.name), devices)
    pods = [each for each in plane.request("GET", "/api/v1/pods")["items"] if _key(each)[0] not in others]
    return found + _wrong_containers(pods, nodes, {_key(each): each for each in claims})


def _wrong_preparation(claim: Json, of: tuple[str, str], devices: Iterable[PreparedDevice]) -> Iterator[str]:
    """Compare what the driver of a node, which is its pool, has prepared for a claim with the claim's allocation."""
    had = sorted((each.request, each.device, each.share) for each in devices)
    wanted = sorted(
        (each["request"], each["device"], each.get("shareID", ""))
        for each in _results(claim)
        if (each["driver"], each["pool"]) == of
    )
    if had != wanted and claim.get("status", {}).get("allocation"):
        yield f"{'/'.join(of)} has prepared {had} for claim {'/'.join(_key(claim))}, which has {wanted}"


def _wrong_containers(pods: Iterable[Json], nodes: Iterable[Node], claims: dict[tuple[str, str], Json]) -> list[str]:
    printed: dict[tuple[str, str], Container] = {}
    for node in nodes:
        printed |= {(each.uid, each.name): each for each in node.containers()}  # the last restart stays
    found: list[str] = []
    names, drivers = {node.name for node in nodes}, {driver for node in nodes for driver in node.drivers}
    for pod in pods:
        if pod["spec"].get("nodeName") in names and "deletionTimestamp" not in pod["metadata"]:
            found += _wrong_in_pod(pod, _Facts(claims, printed, drivers))
    return found


class _Facts(NamedTuple):
    """Claims by namespace and name, what containers printed by the pod's UID and their name, and all drivers."""

    claims: dict[tuple[str, str], Json]
    printed: dict[tuple[str, str], Container]
    drivers: set[str]


def _wrong_in_pod(pod: Json, facts: _Facts) -> Iterator[str]:
    running = {each["name"]: each for each in pod["status"].get("containerStatuses", ()) if "running" in each["state"]}
    for container in pod["spec"]["containers"]:
        status = running.get(container["name"])
        if status is None:
            continue
        subject = f"container {container['name']} of pod {'/'.join(_key(pod))}"
        said = facts.printed.get((pod["metadata"]["uid"], container["name"]))
        if said is None or said.restart != status["restartCount"]:
            yield f"{subject} runs and has printed nothing"
            continue
        wanted = sorted(_allocated(pod, container, facts))
        if list(said.devices) != wanted:
            yield f"{subject} has the devices {list(said.devices)}, and its claims have {wanted}"


def _allocated(pod: Json, container: Json, facts: _Facts) -> Iterator[str]:
    """Yield the devices that a container's claims have for it, as the container names them."""
    status = pod["status"]
    made = {each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses", ())}
    named = {each["name"]: each.get("resourceClaimName") or made.get(each["name"]) for each in _references(pod)}
    wanted = [(named[each["name"]], each.get("request")) for each in container["resources"].get("claims", ())]
    extended = status.get("extendedResourceClaimStatus", {})
    wanted += [
        (extended["resourceClaimName"], each["requestName"])
        for each in extended.get("requestMappings", ())
        if each["containerName"] == container["name"]
    ]
    for name, request in wanted:
        claim = facts.claims.get((pod["metadata"]["namespace"], str(name)), {})
        for result in _results(claim):
            is_asked_for = request is None or result["request"].split("/")[0] == request
            if is_asked_for and result["driver"] in facts.drivers & _asked_drivers(claim):
                yield _device(result)


def _asked_drivers(claim: Json) -> set[str]:
    """Return the drivers that a kubelet asks to prepare a claim: those with a device that does not skip it."""
    skipping = {"*", "NodePrepareResources"}
    return {each["driver"] for each in _results(claim) if skipping.isdisjoint(each.get("skipNodeOperations", ()))}


def _results(claim: Json) -> Sequence[Json]:
    results: Sequence[Json] = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    return results


def _references(pod: Json) -> Sequence[Json]:
    references: Sequence[Json] = pod["spec"].get("resourceClaims", ())
    return references


def _device(result: Json) -> str:
    words = (result["driver"], result["pool"], result["device"], result.get("shareID", ""))
    return "/".join(filter(None, words))


def _key(item: Json) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]
