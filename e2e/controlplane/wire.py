"""What the stand-in for kubelets reads of the API: only fields that it uses, decoded from the bytes of the watch."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
import yaml


class Metadata(msgspec.Struct, rename="camel"):
    """ObjectMeta of any object."""

    name: str
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class UsedClaim(msgspec.Struct):
    """What a container uses: an entry of the pod's claims, and one request of it or all."""

    name: str
    request: str = ""


class ContainerResources(msgspec.Struct):
    """ResourceRequirements."""

    claims: list[UsedClaim] = []


class Container(msgspec.Struct):
    """Container of a pod; images are never pulled, only named back."""

    name: str
    image: str = ""
    resources: ContainerResources = msgspec.field(default_factory=ContainerResources)


class SchedulingGroup(msgspec.Struct, rename="camel"):
    """The PodGroup that a pod belongs to (scheduling.k8s.io, alpha)."""

    pod_group_name: str | None = None


class PodClaim(msgspec.Struct, rename="camel"):
    """A pod's reference to a claim, in its spec (a claim by name) or its status (a claim made from a template)."""

    name: str
    resource_claim_name: str | None = None


class RequestMapping(msgspec.Struct, rename="camel"):
    """The request that serves an extended resource of a container."""

    container_name: str
    request_name: str


class ExtendedResourceClaim(msgspec.Struct, rename="camel"):
    """The claim that a scheduler made for the pod's extended resources."""

    resource_claim_name: str = ""
    request_mappings: list[RequestMapping] = []


class PodSpec(msgspec.Struct, rename="camel"):
    """PodSpec."""

    containers: list[Container]
    node_name: str = ""
    resource_claims: list[PodClaim] = []
    scheduling_group: SchedulingGroup | None = None


class PodStatus(msgspec.Struct, rename="camel"):
    """PodStatus."""

    phase: str = "Pending"
    start_time: str | None = None
    resource_claim_statuses: list[PodClaim] = []
    extended_resource_claim_status: ExtendedResourceClaim | None = None


class Pod(msgspec.Struct):
    """Pod of core/v1."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus

    @property
    def path(self) -> str:
        """The pod's address in the API."""
        return f"/api/v1/namespaces/{self.metadata.namespace}/pods/{self.metadata.name}"

    def knows_its_claims(self) -> bool:
        """Say whether the claims that are made from templates have been made and named in the status."""
        made = {status.name for status in self.status.resource_claim_statuses}
        return all(claim.resource_claim_name or claim.name in made for claim in self.spec.resource_claims)

    def claims_by_entry(self) -> dict[str, str]:
        """Return the names of the claims by those of the entries in the pod's spec."""
        references = (*self.spec.resource_claims, *self.status.resource_claim_statuses)
        return {each.name: each.resource_claim_name for each in references if each.resource_claim_name}

    def claim_names(self) -> Iterator[str]:
        """Yield the names of the claims that the pod needs before it may run."""
        yield from self.claims_by_entry().values()
        if self.status.extended_resource_claim_status:
            yield self.status.extended_resource_claim_status.resource_claim_name


class Condition(msgspec.Struct):
    """Condition of a device's status."""

    type: str
    status: str


class AllocatedDevice(msgspec.Struct, rename="camel"):
    """One device of an allocation, or its entry in `status.devices`, whose `conditions` its driver writes."""

    driver: str
    pool: str
    device: str
    request: str = ""
    share_id: str | None = msgspec.field(name="shareID", default=None)
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    conditions: list[Condition] = []

    @property
    def top_request(self) -> str:
        """The request without the subrequest that was chosen for it."""
        return self.request.partition("/")[0]

    @property
    def key(self) -> tuple[str, str, str, str | None]:
        """What the entry of the status is found by."""
        return self.driver, self.pool, self.device, self.share_id


class DeviceAllocation(msgspec.Struct):
    """DeviceAllocationResult."""

    results: list[AllocatedDevice] = []


class Allocation(msgspec.Struct):
    """AllocationResult."""

    devices: DeviceAllocation = msgspec.field(default_factory=DeviceAllocation)


class Consumer(msgspec.Struct):
    """ResourceClaimConsumerReference: a pod, or a PodGroup for all its pods."""

    resource: str
    name: str
    uid: str


class ClaimStatus(msgspec.Struct, rename="camel"):
    """ResourceClaimStatus."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] = []
    devices: list[AllocatedDevice] = []


class Claim(msgspec.Struct):
    """ResourceClaim of resource.k8s.io/v1."""

    metadata: Metadata
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)

    @property
    def path(self) -> str:
        """The claim's address in the API."""
        return f"/apis/resource.k8s.io/v1/namespaces/{self.metadata.namespace}/resourceclaims/{self.metadata.name}"

    def is_reserved_for(self, pod: Pod) -> bool:
        """Say whether the pod may use this claim, by itself or by its PodGroup."""
        group = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else None
        return any(
            consumer.uid == pod.metadata.uid or (consumer.resource == "podgroups" and consumer.name == group)
            for consumer in self.status.reserved_for
        )

    @property
    def results(self) -> list[AllocatedDevice]:
        """The allocated devices."""
        return self.status.allocation.devices.results if self.status.allocation else []

    def devices_with_conditions(self) -> list[AllocatedDevice]:
        """Return the allocated devices that have binding conditions."""
        return [device for device in self.results if device.binding_conditions]

    def awaits_binding(self) -> bool:
        """Say whether the driver of some device has reported neither success nor failure yet."""
        true = {
            status.key: {condition.type for condition in status.conditions if condition.status == "True"}
            for status in self.status.devices
        }
        return any(
            not true.get(device.key, set()).issuperset(device.binding_conditions)
            and true.get(device.key, set()).isdisjoint(device.binding_failure_conditions)
            for device in self.devices_with_conditions()
        )


class Event(msgspec.Struct):
    """One line of a watch; what the object is depends on the type (ERROR carries a Status)."""

    type: str
    object: msgspec.Raw


Watched = TypeVar("Watched", bound=msgspec.Struct)


@contextlib.asynccontextmanager
async def session(kubeconfig: Path, connections: int) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session to the API server of a kubeconfig file with its authority inside and a token."""
    server, authority, token = _account(kubeconfig)
    async with aiohttp.ClientSession(
        server,
        connector=aiohttp.TCPConnector(limit=connections, ssl=ssl.create_default_context(cadata=authority)),
        headers={"Authorization": f"Bearer {token}"},
    ) as opened:
        yield opened


def _account(kubeconfig: Path) -> tuple[str, str, str]:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return cluster["server"], authority, user["token"]


async def changes(
    opened: aiohttp.ClientSession, path: str, kind: type[Watched], fields: str = ""
) -> AsyncIterator[tuple[str, Watched]]:
    """Yield (event type, object) for ever. Each time that the watch begins, what is there comes as ADDED."""
    query = {"watch": "1", "resourceVersion": "0", "fieldSelector": fields}
    decode_event = msgspec.json.Decoder(Event).decode
    decode = msgspec.json.Decoder(kind).decode
    while True:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with opened.get(path, params=query, timeout=aiohttp.ClientTimeout(total=None)) as answer:
                answer.raise_for_status()
                async for line in _lines(answer.content):
                    try:
                        event = decode_event(line)
                        item = decode(event.object) if event.type != "ERROR" else None
                    except (RecursionError, msgspec.DecodeError):  # the API admits objects that this cannot read
                        continue
                    if item is None:
                        break
                    yield event.type, item
        await asyncio.sleep(0.2)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split into lines of any length; the reader's own `readline` refuses claims with much configuration."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
