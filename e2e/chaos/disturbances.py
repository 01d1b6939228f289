"""What others do to the cluster meanwhile: pods and claims go, nodes are cordoned and removed, slices come anew."""

import random
import threading
from typing import Final

from e2e.audit.reading import Json
from e2e.chaos.stage import MERGE, NAMESPACE, RESOURCE, Stage
from e2e.chaos.telling import tell

_LONGEST_PAUSE_SECONDS: Final = 2.5
_CLAIMS: Final = f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims"


class Disturbances(threading.Thread):
    """Disturbs until it is told to stop."""

    def __init__(self, stage: Stage, seed: int) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self._stage = stage
        self._random = random.Random(f"disturbances {seed}")  # noqa: S311 - no secret
        self._kinds = (
            (0.20, self._delete_pod),
            (0.35, self._edit_pod),
            (0.47, self._edit_claim),
            (0.55, self._delete_claim),
            (0.68, self._cordon),
            (0.74, self._remove_node),
            (0.86, self._republish),
            (0.94, self._taint_device),
            (1.01, self._label_node),
        )

    def run(self) -> None:
        """Do one thing after the other."""
        while not self.stop.wait(self._random.random() * _LONGEST_PAUSE_SECONDS):
            draw = self._random.random()
            next(disturb for limit, disturb in self._kinds if draw < limit)()

    def _one(self, items: list[Json]) -> str:
        return str(self._random.choice(items)["metadata"]["name"]) if items else ""

    def _delete_pod(self) -> None:
        if name := self._one(self._stage.pods()):
            self._stage.delete_pod(name, at_once=self._random.random() < 0.5)

    def _edit_pod(self) -> None:
        if name := self._one(self._stage.pods()):
            body = {"metadata": {"labels": {"edited": str(self._random.randrange(99))}}}
            self._stage.request("PATCH", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", body, content=MERGE)

    def _edit_claim(self) -> None:
        if name := self._one(self._stage.listed(_CLAIMS)):
            body = {"metadata": {"annotations": {"edited": str(self._random.randrange(99))}}}
            self._stage.request("PATCH", f"{_CLAIMS}/{name}", body, content=MERGE)

    def _delete_claim(self) -> None:
        if name := self._one(self._stage.listed(_CLAIMS)):
            tell(f"delete claim {name}")
            self._stage.request("DELETE", f"{_CLAIMS}/{name}")

    def _cordon(self) -> None:
        name, is_off = self._random.choice(self._stage.own_nodes), self._random.random() < 0.4
        body = {"spec": {"unschedulable": is_off or None}}
        self._stage.request("PATCH", f"/api/v1/nodes/{name}", body, content=MERGE)

    def _remove_node(self) -> None:
        """Remove a node with its slices for a while; its pods are removed by whoever collects them."""
        name = self._random.choice(self._stage.own_nodes)
        tell(f"remove node {name}")
        nodes = [each for each in self._stage.fleet.nodes if each["metadata"]["name"] == name]
        slices = [each for each in self._stage.fleet.slices if each["spec"].get("nodeName") == name]
        self._stage.request("DELETE", f"/api/v1/nodes/{name}")
        for each in slices:
            self._stage.request("DELETE", f"{RESOURCE}/resourceslices/{each['metadata']['name']}")
        for pod in self._stage.pods():
            if pod["spec"].get("nodeName") == name:
                self._stage.delete_pod(pod["metadata"]["name"], at_once=True)
        self.stop.wait(self._random.random() * 8)
        for each in nodes:
            self._stage.create(each)
        for each in slices:
            self._stage.republish(each)
        tell(f"node {name} is back")

    def _republish(self) -> None:
        manifest = self._random.choice(self._stage.fleet.slices)
        if self._random.random() < 0.3:
            self._stage.request("DELETE", f"{RESOURCE}/resourceslices/{manifest['metadata']['name']}")
            self.stop.wait(self._random.random() * 2)
        self._stage.republish(manifest)

    def _taint_device(self) -> None:
        self._stage.republish(self._random.choice(self._stage.fleet.slices), taints=True)

    def _label_node(self) -> None:
        name = self._random.choice(self._stage.own_nodes)
        body = {"metadata": {"labels": {"edited": str(self._random.randrange(9))}}}
        self._stage.request("PATCH", f"/api/v1/nodes/{name}", body, content=MERGE)
