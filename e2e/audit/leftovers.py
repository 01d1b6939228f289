"""
What is left for no running pod in a cluster at rest: reservations, claims, volumes, nominations, gangs in two parts.

Not part of the audit itself: a scheduler at work holds things for a moment, and deleting pods leaves such things.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from e2e.audit.reading import Finding, Json, Objects, claims_of, holds_node, key_of, results_of
from e2e.audit.selectors import labels_of

SPECIAL = "resource.kubernetes.io/extended-resource-claim"
GANG_LABEL = "dovetail.dev/gang"
MINIMUM = "dovetail.dev/gang-minimum"
FINISHED = ("Succeeded", "Failed")


def leftovers(objects: Objects) -> list[Finding]:
    """Name what is left over; empty where everything that is held is held by pods that run."""
    waiting = [each for each in objects.pods if _waits(each)]
    return [
        *_reservations(objects),
        *_special_claims(objects),
        *_volumes(objects),
        *_nominations(waiting, objects),
        *_parts(objects.pods, objects.groups),
    ]


def _waits(pod: Json) -> bool:
    is_leaving = "deletionTimestamp" in pod["metadata"]
    return not pod["spec"].get("nodeName") and not is_leaving and pod["status"].get("phase") not in FINISHED


def _reservations(objects: Objects) -> Iterator[Finding]:
    """Pods that have a claim reserved exist and run; drivers that get devices ready are waited for."""
    by_uid = {each["metadata"]["uid"]: each for each in objects.pods}
    groups = {each["metadata"]["uid"] for each in objects.groups}
    for claim in objects.claims:
        are_awaited = any(each.get("bindingConditions") for each in results_of(claim))
        if results_of(claim) and not claim["status"].get("reservedFor"):
            yield Finding("left", str(key_of(claim)), "it is allocated and reserved for no pod")
        for consumer in claim.get("status", {}).get("reservedFor") or ():
            pod, name = by_uid.get(consumer["uid"]), consumer["name"]
            if consumer["resource"] == "podgroups":
                if consumer["uid"] not in groups:
                    yield Finding("left", str(key_of(claim)), f"it is reserved for the PodGroup {name}, which is gone")
            elif pod is None:
                yield Finding("left", str(key_of(claim)), f"it is reserved for the pod {name}, which is gone")
            elif _waits(pod) and not are_awaited:
                yield Finding("held", str(key_of(claim)), f"it is reserved for the pod {name}, which waits")


def _special_claims(objects: Objects) -> Iterator[Finding]:
    """Of the claims for extended resources of a bound pod there is the one that its status names, and no other."""
    used = {
        each["metadata"]["uid"]: each["status"].get("extendedResourceClaimStatus", {}).get("resourceClaimName")
        for each in objects.pods
        if each["spec"].get("nodeName")
    }
    for claim in objects.claims:
        metadata = claim["metadata"]
        if (metadata.get("annotations") or {}).get(SPECIAL) != "true" or "deletionTimestamp" in metadata:
            continue
        names = {used.get(each["uid"]) for each in metadata.get("ownerReferences") or ()} - {None}
        if names and metadata["name"] not in names:
            yield Finding("left", str(key_of(claim)), f"its pod uses the claim {' '.join(map(str, names))}")


def _volumes(objects: Objects) -> Iterator[Finding]:
    """A volume that is kept for a claim is that claim's volume; of a claim that is gone it is released."""
    claims = {each["metadata"]["uid"]: each for each in objects.volume_claims if "uid" in each["metadata"]}
    for volume in objects.volumes:
        kept, phase = volume["spec"].get("claimRef") or {}, volume.get("status", {}).get("phase")
        claim = claims.get(kept.get("uid", ""))
        if not kept.get("uid") or (claim is None and phase in {"Released", "Failed"}):
            continue
        if claim is None or claim["spec"].get("volumeName") != volume["metadata"]["name"]:
            yield Finding("left", volume["metadata"]["name"], f"it is kept for the claim {kept['name']}, and unused")


def _nominations(waiting: Iterable[Json], objects: Objects) -> Iterator[Finding]:
    """A node is nominated for pods whose devices or volumes are got ready there, or while a pod leaves it."""
    leaving = {each["spec"].get("nodeName") for each in objects.pods if "deletionTimestamp" in each["metadata"]}
    allocated = {key_of(each) for each in objects.claims if results_of(each)}
    for pod in waiting:
        node = pod["status"].get("nominatedNodeName")
        key = key_of(pod)
        has_devices = any(key._replace(name=name) in allocated for name in claims_of(pod))
        if node and node not in leaving and not has_devices and not pod["spec"].get("volumes"):
            yield Finding("nominated", str(key), f"{node} is nominated for it, and no pod leaves that node")


def _parts(pods: Iterable[Json], groups: Iterable[Json]) -> Iterator[Finding]:
    """A gang that could be whole is not in two parts."""
    gangs: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
    for pod in pods:
        named = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or labels_of(pod).get(GANG_LABEL)
        if named:
            gangs[pod["metadata"]["namespace"], named].append(pod)
    minima = {tuple(key_of(each)): _minimum_of_group(each) for each in groups}
    for key, members in gangs.items():
        minimum = minima.get(key) or max(map(_minimum_of_pod, members))
        running = [each for each in members if holds_node(each) and "deletionTimestamp" not in each["metadata"]]
        waiting = [each for each in members if _waits(each)]
        if running and waiting and len(running) < minimum <= len(running) + len(waiting):
            message = f"{len(running)} of its pods run, {len(waiting)} wait, {minimum} have to run"
            yield Finding("part", "/".join(key), message)


def _minimum_of_group(group: Json) -> int:
    policy = group["spec"].get("schedulingPolicy") or {}
    return int((policy.get("gang") or {}).get("minCount", 0))


def _minimum_of_pod(pod: Json) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(MINIMUM, 0))
