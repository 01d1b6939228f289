"""What others do to the cluster meanwhile: to pods, claims, nodes, slices, quotas, held room and Dovetail's rights."""

import datetime as dt
import random
import threading
from typing import Final

from e2e.chaos.cluster import (
    DEVICE_QUOTA_COUNT,
    FORCED,
    MERGE,
    NAMESPACES,
    RESOURCE,
    TIGHT_QUOTA,
    WIDE_QUOTA,
    Cluster,
    claim_path,
    pod_path,
)
from e2e.chaos.progress import report
from e2e.chaos.real_nodes import RealNodes
from e2e.controlplane.slices import RETURN_SECONDS, WIPE_SECONDS, without_slices

_LONGEST_PAUSE_SECONDS: Final = 2.5
_LONGEST_ABSENCE_SECONDS: Final = 8.0
_MOST_MISSING: Final = 2
"""Devices that the driver of a real node leaves out."""
_LONGEST_WITHOUT_RIGHTS_SECONDS: Final = 12.0
_LONGEST_HOLD_SECONDS: Final = 40.0
_SCALE: Final = 0.3
"""Slices are away for so much of the time that real kubelets and drivers take: the other disturbances wait for them."""
_HOLDS: Final = "/apis/dovetail.dev/v1alpha1/deviceholds"
_CLAIMS: Final = f"{RESOURCE}/resourceclaims"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_BINDINGS: Final = (
    f"{_RBAC}/clusterrolebindings/dovetail",
    f"{_RBAC}/namespaces/dovetail-system/rolebindings/dovetail",
)
"""What grants Dovetail its rights in the cluster, and those to its Lease."""


class Disturbances(threading.Thread):
    """Disturbs until it is told to stop."""

    def __init__(self, cluster: Cluster, seed: int, real: RealNodes) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self._cluster = cluster
        self._real = real
        self._holds: list[str] = []
        self._random = random.Random(f"disturbances {seed}")  # noqa: S311 - no secret
        self._kinds = (
            (0.20, self._delete_pod),
            (0.35, self._edit_pod),
            (0.47, self._edit_claim),
            (0.55, self._delete_claim),
            (0.68, self._cordon),
            (0.74, self._remove_node),
            (0.84, self._republish),
            (0.90, self._taint_device),
            (0.93, self._label_node),
            (0.96, self._change_quota),
            (0.975, self._change_device_quota),
            (0.98, self._hold_room),
            (0.985, self._take_rights),
            (0.9925, self._restart_kubelet),
            (1.01, self._end_driver),
        )

    def run(self) -> None:
        """Do one thing after the other; quotas are there from the beginning, so that they bind soon."""
        for number in range(DEVICE_QUOTA_COUNT):
            self._cluster.give_quota(number, 2 * number + 2)
        while not self.stop.wait(self._random.random() * _LONGEST_PAUSE_SECONDS):
            draw = self._random.random()
            next(disturb for limit, disturb in self._kinds if draw < limit)()
        for name in self._holds:
            self._cluster.request("DELETE", f"{_HOLDS}/{name}")

    def _delete_pod(self) -> None:
        if pods := self._cluster.pods():
            self._cluster.delete_pod(self._random.choice(pods), at_once=self._random.random() < FORCED)

    def _edit_pod(self) -> None:
        if pods := self._cluster.pods():
            body = {"metadata": {"labels": {"edited": str(self._random.randrange(99))}}}
            self._cluster.request("PATCH", pod_path(self._random.choice(pods)), body, content=MERGE)

    def _edit_claim(self) -> None:
        if claims := self._cluster.listed(_CLAIMS):
            body = {"metadata": {"annotations": {"edited": str(self._random.randrange(99))}}}
            self._cluster.request("PATCH", claim_path(self._random.choice(claims)), body, content=MERGE)

    def _delete_claim(self) -> None:
        if claims := self._cluster.listed(_CLAIMS):
            path = claim_path(self._random.choice(claims))
            report(f"delete claim {path.rpartition('/')[2]}")
            self._cluster.request("DELETE", path)

    def _change_quota(self) -> None:
        is_tight = self._random.random() < 0.6
        report(f"a {'tight' if is_tight else 'wide'} ResourceQuota")
        self._cluster.limit(TIGHT_QUOTA if is_tight else WIDE_QUOTA)

    def _change_device_quota(self) -> None:
        """Make, change or delete a DeviceQuota; few devices bind soon, and many only now and then."""
        number, limit = self._random.randrange(DEVICE_QUOTA_COUNT), self._random.choice((None, 2, 3, 4, 6, 12))
        report(f"DeviceQuota {number}: {'deleted' if limit is None else f'at most {limit}'}")
        self._cluster.give_quota(number, limit)

    def _hold_room(self) -> None:
        """Hold a device for pods that never come; Dovetail ends the hold at its deadline, or when others have it."""
        each = self._random.choice([each for each in self._cluster.fleet.slices if each["spec"].get("devices")])
        spec, name = each["spec"], f"chaos-{len(self._holds)}"
        node = spec.get("nodeName") or self._random.choice(self._cluster.own_nodes)
        held = {"driver": spec["driver"], "pool": spec["pool"]["name"], "names": [spec["devices"][0]["name"]]}
        pods = {"namespace": self._random.choice(NAMESPACES), "labels": {"app": "never-comes"}}
        seconds = self._random.uniform(2, _LONGEST_HOLD_SECONDS)
        deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
        report(f"{node}: {held['names'][0]} is held for {seconds:.0f} s")
        body = {
            "apiVersion": "dovetail.dev/v1alpha1",
            "kind": "DeviceHold",
            "metadata": {"name": name},
            "spec": {
                "owner": {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name},
                "deadline": f"{deadline:%Y-%m-%dT%H:%M:%SZ}",
                "groups": [{"pods": pods, "places": [{"node": node, "devices": [held]}]}],
            },
        }
        self._holds.append(name)
        self._cluster.request("POST", _HOLDS, body)

    def _take_rights(self) -> None:
        """Take a binding of Dovetail's account away for a while; without rights to its Lease it ends."""
        path = self._random.choice(_BINDINGS)
        binding = self._cluster.request("GET", path)
        seconds = self._random.uniform(1, _LONGEST_WITHOUT_RIGHTS_SECONDS)
        report(f"without {path.removeprefix(_RBAC)} for {seconds:.1f} s")
        self._cluster.request("DELETE", path)
        self.stop.wait(seconds)
        renewed = {**binding, "metadata": {"name": binding["metadata"]["name"]}}
        self._cluster.request("POST", path.rpartition("/")[0], renewed)

    def _cordon(self) -> None:
        name, is_off = self._random.choice(self._cluster.own_nodes), self._random.random() < 0.4
        body = {"spec": {"unschedulable": is_off or None}}
        self._cluster.request("PATCH", f"/api/v1/nodes/{name}", body, content=MERGE)

    def _remove_node(self) -> None:
        """Remove a node with its slices for a while, and its pods as pod garbage collection does."""
        name = self._random.choice(self._cluster.own_nodes)
        report(f"remove node {name}")
        if name in self._real:
            self._real.remove(name, self._random.random() * _LONGEST_ABSENCE_SECONDS)
        else:
            self._remove_stand_in(name)
        report(f"node {name} is back")

    def _remove_stand_in(self, name: str) -> None:
        nodes = [each for each in self._cluster.fleet.nodes if each["metadata"]["name"] == name]
        slices = [each for each in self._cluster.fleet.slices if each["spec"].get("nodeName") == name]
        self._cluster.request("DELETE", f"/api/v1/nodes/{name}")
        for each in slices:
            self._cluster.request("DELETE", f"{RESOURCE}/resourceslices/{each['metadata']['name']}")
        for pod in self._cluster.pods():
            if pod["spec"].get("nodeName") == name:
                self._cluster.delete_pod(pod, at_once=True)
        self.stop.wait(self._random.random() * _LONGEST_ABSENCE_SECONDS)
        for each in nodes:
            self._cluster.create(each)
        for each in slices:
            self._cluster.republish(each)

    def _restart_kubelet(self) -> None:
        """Let the slices of a node vanish as at a kubelet's start; what happens to real kubelets: `node_faults`."""
        if name := self._stand_in():
            seconds = _SCALE * self._random.uniform(*RETURN_SECONDS)
            report(f"the kubelet of {name} restarts, slices are back after {seconds:.1f} s")
            with without_slices(self._cluster.request, name):
                self.stop.wait(seconds)

    def _end_driver(self) -> None:
        """Let the slices of a driver vanish some time after its end; they are back with it."""
        manifest = self._random.choice(self._cluster.fleet.slices)
        name, driver = manifest["spec"].get("nodeName"), manifest["spec"]["driver"]
        if name is None or name in self._real:
            return
        seconds = self._random.random() * _LONGEST_ABSENCE_SECONDS
        report(f"{driver} on {name} ends, and is back {seconds:.1f} s after its slices have gone")
        self.stop.wait(_SCALE * WIPE_SECONDS)
        with without_slices(self._cluster.request, name, driver):
            self.stop.wait(seconds)

    def _stand_in(self) -> str:
        """Choose a node without a kubelet of its own; empty where all have one."""
        names = [name for name in self._cluster.own_nodes if name not in self._real]
        return self._random.choice(names) if names else ""

    def _republish(self) -> None:
        manifest = self._random.choice(self._cluster.fleet.slices)
        if (node := manifest["spec"].get("nodeName")) in self._real:
            self._publish_less(node)
            return
        if self._random.random() < 0.3:
            self._cluster.request("DELETE", f"{RESOURCE}/resourceslices/{manifest['metadata']['name']}")
            self.stop.wait(self._random.random() * 2)
        self._cluster.republish(manifest)

    def _publish_less(self, node: str) -> None:
        """Let the driver of a real node publish all devices or fewer; it writes slices again that others delete."""
        if self._random.random() < 0.3:
            self._cluster.delete_slices(node)
        self._real.publish(node, without=self._random.randint(0, _MOST_MISSING))

    def _taint_device(self) -> None:
        manifest = self._random.choice(self._cluster.fleet.slices)
        if (node := manifest["spec"].get("nodeName")) in self._real:
            self._real.publish(node, tainted=1)
        else:
            first = (each["name"] for each in (manifest["spec"].get("devices") or [])[:1])
            self._cluster.republish(manifest, tainted=tuple(first))

    def _label_node(self) -> None:
        name = self._random.choice(self._cluster.own_nodes)
        body = {"metadata": {"labels": {"edited": str(self._random.randrange(9))}}}
        self._cluster.request("PATCH", f"/api/v1/nodes/{name}", body, content=MERGE)
