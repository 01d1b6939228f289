"""Volumes of a test's world on the real API server, and a stand-in for the provisioner that makes some of them."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Self

from e2e.controlplane.access import RequestError
from tests.support.shell_world import Json, World

STORAGE = "/apis/storage.k8s.io/v1"
HOST = "kubernetes.io/hostname"
ZONE = "topology.example.com/zone"
SELECTED = "volume.kubernetes.io/selected-node"
_MERGE = "application/merge-patch+json"


class VolumeWorld:
    """Classes, volumes and claims of one test; `local` has no provisioner, `made` the stand-in's."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plane = world.plane
        self.local = f"local-{world.word}"
        self.made = f"made-{world.word}"
        self.provisioner = f"{world.word}.csi.example.com"
        self._volumes: list[str] = []
        self._nodes: list[str] = []
        self._is_driver_there = False
        self._create(f"{STORAGE}/storageclasses", self._class(self.local, "kubernetes.io/no-provisioner"))
        self._create(f"{STORAGE}/storageclasses", self._class(self.made, self.provisioner))

    def add_nodes(self, count: int, devices: int = 0) -> list[str]:
        """Create nodes that know their own names."""
        self.world.add_nodes(count, devices)
        for node in self.world.nodes:
            self.world.label(node, HOST, node)
        return self.world.nodes

    def limit(self, node: str, count: int) -> None:
        """Let the node have so many volumes of the stand-in's attached."""
        self._drive(node, {"allocatable": {"count": count}})

    def require(self, *, is_required: bool = True) -> None:
        """Have the stand-in's driver on each node with its volumes (preventPodSchedulingIfMissing), or no longer."""
        spec = {"preventPodSchedulingIfMissing": is_required}
        if self._is_driver_there:
            self.plane.request("PATCH", f"{STORAGE}/csidrivers/{self.provisioner}", {"spec": spec}, content=_MERGE)
            return
        self._create(f"{STORAGE}/csidrivers", {"metadata": {"name": self.provisioner}, "spec": spec})
        self._is_driver_there = True

    def install(self, node: str, driver: str = "") -> None:
        """Install a driver on a node, without another the stand-in's."""
        self._drive(node, {"name": driver or self.provisioner})

    def zoned(self, node: str, zone: str) -> None:
        """Put the node into a zone of the stand-in's, from where all that it makes there is reached."""
        self.world.label(node, ZONE, zone)
        self._drive(node, {"topologyKeys": [ZONE]})

    def _drive(self, node: str, more: Json) -> None:
        driver = {"name": self.provisioner, "nodeID": node, **more}
        self._create(f"{STORAGE}/csinodes", {"metadata": {"name": node}, "spec": {"drivers": [driver]}})
        self._nodes.append(node)

    def volume(
        self,
        name: str,
        *nodes: str,
        size: str = "1Gi",
        storage: str = "",
        claim: Json | None = None,
        mode: str = "ReadWriteOnce",
    ) -> str:
        """Create a volume that some nodes reach, kept for a claim or for none; give its name."""
        unique = f"{name}-{self.world.word}"
        spec: Json = {
            "capacity": {"storage": size},
            "accessModes": [mode],
            "storageClassName": storage or self.local,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": self.provisioner, "volumeHandle": unique},
        }
        if nodes:
            terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": list(nodes)}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if claim is not None:
            spec["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                **{key: claim["metadata"][key] for key in ("namespace", "name", "uid")},
            }
        annotations = {"pv.kubernetes.io/provisioned-by": self.provisioner} if claim is not None else {}
        self._volumes.append(unique)
        self._create(
            "/api/v1/persistentvolumes", {"metadata": {"name": unique, "annotations": annotations}, "spec": spec}
        )
        return unique

    def claim(self, name: str, storage: str, *, size: str = "1Gi", mode: str = "ReadWriteOnce") -> None:
        """Create a claim."""
        spec = {"accessModes": [mode], "storageClassName": storage, "resources": {"requests": {"storage": size}}}
        self._create(f"{self._claims}", {"metadata": {"name": name}, "spec": spec})

    def pod(self, name: str, *claims: str, device: str = "", **spec: Any) -> None:
        """Create a pod with volumes of claims, and with a claim for a device if one is named."""
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        if device:
            self.world.pod(name, claim=device, volumes=volumes, **spec)
            return
        container = {"name": "main", "image": "example.com/none"}
        self.world.pod(name, containers=[container], resourceClaims=[], **{"volumes": volumes, **spec})

    def get(self, name: str) -> Json:
        """Read a claim."""
        found: Json = self.plane.request("GET", f"{self._claims}/{name}")
        return found

    def claims(self) -> list[Json]:
        """List the claims."""
        items: list[Json] = self.plane.request("GET", self._claims)["items"]
        return items

    def selected(self, name: str) -> str:
        """Give the node for which a claim's volume is to be made."""
        return str(self.get(name)["metadata"].get("annotations", {}).get(SELECTED, ""))

    def kept(self, volume: str) -> str:
        """Give the claim that a volume is kept for, and empty where it is free."""
        found = self.plane.request("GET", f"/api/v1/persistentvolumes/{volume}")
        return str(found["spec"].get("claimRef", {}).get("name", ""))

    def reject(self, claim: Json) -> None:
        """Say that no volume can be made on the selected node."""
        body = {"metadata": {"annotations": {SELECTED: None}}}
        self.plane.request("PATCH", f"{self._claims}/{claim['metadata']['name']}", body, content=_MERGE)

    def problems(self) -> list[str]:
        """Say which bound pods have claims that are not bound, or bound to volumes of other nodes, or of two claims."""
        return [*self._unbound(), *self._shared()]

    def clear(self) -> None:
        """Delete what no namespace holds."""
        for path in (
            *(f"/api/v1/persistentvolumes/{each}" for each in self._volumes),
            *(f"{STORAGE}/csinodes/{each}" for each in self._nodes),
            *(f"{STORAGE}/storageclasses/{each}" for each in (self.local, self.made)),
            f"{STORAGE}/csidrivers/{self.provisioner}",
        ):
            with contextlib.suppress(RequestError):
                self.plane.request("DELETE", path)

    def _unbound(self) -> Iterator[str]:
        claims = {each["metadata"]["name"]: each for each in self.claims()}
        volumes = {each["metadata"]["name"]: each for each in self._all_volumes()}
        for pod in self.world.pods():
            node = pod["spec"].get("nodeName")
            for entry in pod["spec"].get("volumes", ()) if node else ():
                name = entry.get("persistentVolumeClaim", {}).get("claimName") or (
                    f"{pod['metadata']['name']}-{entry['name']}" if "ephemeral" in entry else ""
                )
                if not name:
                    continue
                volume = volumes.get(claims.get(name, {}).get("spec", {}).get("volumeName", ""))
                if volume is None:
                    yield f"pod {pod['metadata']['name']} is bound, and claim {name} is not"
                    continue
                terms = volume["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", [])
                if terms and node not in terms[0]["matchExpressions"][0]["values"]:
                    yield f"pod {pod['metadata']['name']} is elsewhere than its volume {volume['metadata']['name']}"

    def _shared(self) -> Iterator[str]:
        names = [each["spec"].get("volumeName") for each in self.claims()]
        return (f"volume {name} is of two claims" for name in set(names) if name and names.count(name) > 1)

    def _all_volumes(self) -> list[Json]:
        items: list[Json] = self.plane.request("GET", "/api/v1/persistentvolumes")["items"]
        return items

    @property
    def _claims(self) -> str:
        return f"/api/v1/namespaces/{self.world.namespace}/persistentvolumeclaims"

    def _create(self, path: str, body: Json) -> None:
        self.plane.request("POST", path, body)

    def _class(self, name: str, provisioner: str) -> Json:
        return {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Retain",
        }


class Provisioner:
    """
    Makes a volume on the selected node for every claim of the world that names one, until the block ends.

    On `refuses` it says that it cannot, as CSI's provisioner does: the node is removed from the claim. What it makes is
    reached from the selected node, or from the `reach` that has it.
    """

    def __init__(self, volumes: VolumeWorld, *refuses: str, reach: Sequence[Sequence[str]] = ()) -> None:
        self._volumes = volumes
        self._refuses = refuses
        self._reach = {node: nodes for nodes in reach for node in nodes}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.refused: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        made: set[str] = set()
        while not self._stop.wait(0.1):
            for claim in self._volumes.claims():
                node = claim["metadata"].get("annotations", {}).get(SELECTED, "")
                name = claim["metadata"]["name"]
                if not node or claim["spec"].get("volumeName") or name in made:
                    continue
                if node in self._refuses:
                    self.refused.append(name)
                    self._volumes.reject(claim)
                else:
                    made.add(name)
                    nodes = self._reach.get(node, [node])
                    mode = claim["spec"]["accessModes"][0]
                    self._volumes.volume(f"made-{name}", *nodes, storage=self._volumes.made, claim=claim, mode=mode)
