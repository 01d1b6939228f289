"""The cluster: fleet, namespaces, accounts with their rights, classes; and how all that Mallory made goes away."""

import asyncio
import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from e2e import objects
from e2e.controlplane import versions
from e2e.controlplane.plane import ControlPlane
from e2e.fleet import nvidia, publish
from e2e.fleet.fleets import gpu_fleet
from e2e.fleet.shape import Fleet
from e2e.hostile import stream
from e2e.hostile.cases.capture import SPECIAL_NODE
from e2e.hostile.cases.case import SPECIAL, Rights
from e2e.hostile.objects.kinds import NAMESPACE, PRIORITIES
from e2e.hostile.objects.machines import own_nodes

Manifest = dict[str, Any]
CLEAN_SECONDS: Final = 120.0
_MERGE: Final = "application/merge-patch+json"
_EVENTS: Final = "/apis/events.k8s.io/v1"
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_RIGHTS: Final[dict[str, tuple[str, ...]]] = {
    "": ("pods", "persistentvolumeclaims"),
    "resource.k8s.io": ("resourceclaims", "resourceclaimtemplates"),
    "policy": ("poddisruptionbudgets",),
    "scheduling.k8s.io": ("podgroups",),
    "scheduling.x-k8s.io": ("podgroups",),
}
"""What a tenant may create in its own namespace."""
_NAMESPACED: Final = (
    ("v1", "pods"),
    ("resource.k8s.io/v1", "resourceclaims"),
    ("resource.k8s.io/v1", "resourceclaimtemplates"),
    ("v1", "persistentvolumeclaims"),
    ("policy/v1", "poddisruptionbudgets"),
    (versions.pod_groups(), "podgroups"),
    ("scheduling.x-k8s.io/v1alpha1", "podgroups"),
    ("storage.k8s.io/v1", "csistoragecapacities"),
)
_CLUSTER_SCOPED: Final = (
    ("resource.k8s.io/v1", "resourceslices"),
    ("resource.k8s.io/v1", "deviceclasses"),
    (versions.taint_rules(), "devicetaintrules"),
    ("dovetail.dev/v1alpha1", "deviceholds"),
    ("v1", "persistentvolumes"),
    ("storage.k8s.io/v1", "storageclasses"),
    ("storage.k8s.io/v1", "csinodes"),
    ("storage.k8s.io/v1", "csidrivers"),
    ("storage.k8s.io/v1", "volumeattachments"),
    ("v1", "nodes"),
    ("v1", "namespaces"),
)
_KEPT: Final = frozenset({NAMESPACE, *(each["metadata"]["name"] for each in own_nodes())})


class Stage:
    """Everything but work, on a control plane."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession, nodes: int) -> None:
        self.plane = plane
        self.session = session
        self.fleet = _fleet(nodes)

    async def build(self) -> None:
        """Create it. Raises RequestError."""
        await publish.publish(self.session, self.fleet)
        await objects.create(self.session, map(_namespace, (NAMESPACE, stream.NAMESPACE)))
        await objects.create(self.session, _furniture())

    async def tear_down(self) -> None:
        """Take everything away, so that the control plane can be used again."""
        await self.clean()
        await publish.withdraw(self.session, self.fleet)
        await objects.delete(self.session, (*_furniture(), *map(_namespace, (NAMESPACE, stream.NAMESPACE))))

    def kubeconfig(self, rights: Rights) -> Path:
        """Write the kubeconfig of the account that has these rights."""
        return self.plane.kubeconfig_for_service_account(NAMESPACE, rights)

    async def clean(self) -> bool:
        """Delete everything that cases have made; False where something is left after a while."""
        end = time.monotonic() + CLEAN_SECONDS
        while await self._left():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.5)
        for namespace in (NAMESPACE, stream.NAMESPACE):  # or what one case made others read would count for the next
            await self._send("DELETE", f"{_EVENTS}/namespaces/{namespace}/events", {})
        body = {"metadata": {"labels": {"edited": None}}}
        await self._send("PATCH", f"/api/v1/namespaces/{NAMESPACE}", body, _MERGE)
        return True

    async def _left(self) -> int:
        """Delete what is there, and count it."""
        count = 0
        for version, plural in _NAMESPACED:
            root = _root(version)
            path = f"{root}/namespaces/{NAMESPACE}/{plural}"
            await self._send("DELETE", path, {"gracePeriodSeconds": 0})
            count += await self._free(root, plural, await self._list(path))
        for version, plural in _CLUSTER_SCOPED:
            found = [each for each in await self._list(f"{_root(version)}/{plural}") if _is_mallorys(each)]
            await self._delete(f"{_root(version)}/{plural}", found)
            count += len(found)
        return count

    async def _free(self, root: str, plural: str, found: list[Manifest]) -> int:
        """Take finalizers away."""
        for each in found[:500]:
            path = f"{root}/namespaces/{NAMESPACE}/{plural}/{each['metadata']['name']}"
            if each["metadata"].get("finalizers"):
                await self._send("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)
        return len(found)

    async def _delete(self, path: str, found: Iterable[Manifest]) -> None:
        for each in found:
            body = {"gracePeriodSeconds": 0}
            await self._send("DELETE", f"{path}/{each['metadata']['name']}", body)
            if each["metadata"].get("finalizers"):
                gone = {"metadata": {"finalizers": None}}
                await self._send("PATCH", f"{path}/{each['metadata']['name']}", gone, _MERGE)

    async def _list(self, path: str) -> list[Manifest]:
        """List the metadata of objects: the rest may be nested deeper than a program can read."""
        headers = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
        async with self.session.get(path, headers=headers) as answer:
            text = await answer.read()
        items: list[Manifest] = (msgspec.json.decode(text)["items"] or []) if answer.ok else []
        return items

    async def _send(self, method: str, path: str, body: Manifest, content: str = "application/json") -> None:
        headers = {"Content-Type": content}
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self.session.request(method, path, json=body, headers=headers) as answer:
                await answer.read()


def _is_mallorys(each: Manifest) -> bool:
    name = each["metadata"]["name"]
    return str(name).startswith("mallory-") and name not in _KEPT


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _fleet(nodes: int) -> Fleet:
    """Make the fleet, and the node with one GPU that only probes and some cases go to."""
    special = nvidia.gpu_node(SPECIAL_NODE, gpus=1)
    (node,) = special.nodes
    node["metadata"]["labels"]["pool"] = SPECIAL
    node["spec"] = {"taints": [{"key": "pool", "value": SPECIAL, "effect": "NoSchedule"}]}
    return gpu_fleet(nodes) + special


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _furniture() -> list[Manifest]:
    return [*own_nodes(), *_accounts(), *_priorities(), _storage_class(), definition()]


def _accounts() -> list[Manifest]:
    """Make the accounts of a tenant and of a driver, with what each may do."""
    meta = {"namespace": NAMESPACE}
    tenant = [{"apiGroups": [group], "resources": list(kinds), "verbs": ["*"]} for group, kinds in _RIGHTS.items()]
    groups = ["", "resource.k8s.io", "storage.k8s.io", "scheduling.k8s.io", "policy"]
    driver = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    return [
        *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": each, **meta}} for each in _ACCOUNTS),
        {"apiVersion": _RBAC, "kind": "Role", "metadata": {"name": "tenant", **meta}, "rules": tenant},
        {"apiVersion": _RBAC, "kind": "ClusterRole", "metadata": {"name": "mallory-driver"}, "rules": driver},
        {
            "apiVersion": _RBAC,
            "kind": "RoleBinding",
            "metadata": {"name": "tenant", **meta},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", **meta}],
        },
        {
            "apiVersion": _RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "mallory-driver"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mallory-driver"},
            "subjects": [{"kind": "ServiceAccount", "name": "driver", **meta}],
        },
    ]


_ACCOUNTS: Final = ("tenant", "driver")


def _priorities() -> list[Manifest]:
    version = "scheduling.k8s.io/v1"
    return [
        {"apiVersion": version, "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in PRIORITIES.items()
    ]


def _storage_class() -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "waiting"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def definition() -> Manifest:
    """Make the definition of coscheduling's PodGroup, with no schema to speak of."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "podgroups.scheduling.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins"},
        },
        "spec": {
            "group": "scheduling.x-k8s.io",
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup", "listKind": "PodGroupList"},
            "scope": "Namespaced",
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
        },
    }
