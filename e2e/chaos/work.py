"""The pods that come: single ones, gangs of both sorts, shared claims, extended resources, volumes, plain ones."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from e2e.audit.leftovers import GANG_LABEL, MINIMUM
from e2e.audit.reading import Json
from e2e.chaos.cluster import FORCED, NAMESPACES, PEER, POOL, REQUESTS, SCHEDULER, Cluster, disk
from e2e.chaos.for_kubelets import NO_IMAGE
from e2e.chaos.judge import BUDGET, NEEDED, gang_of
from e2e.controlplane import versions
from e2e.controlplane.kubelet import RUN_SECONDS
from e2e.controlplane.preparing import PREPARE_FAILS

MOST_PODS: Final = 75
MOST_WAITING: Final = 35
_PAUSE_SECONDS: Final = 0.25
_GRACES: Final = (0, 1, 1, 1, 1, 1, 1, 3)
"""1 s is the rule; 0 makes every deletion a forced one, which real clusters have too, but rarely."""
_KEPT: Final = ("one", "two", "share", "first")
"""What pods of ReplicaSets ask for, which repairs may move: two in each namespace."""
_FAILING: Final = 12
"""The preparations of the pods of so many turns work, but for one."""
GROUPS: Final = versions.pod_groups()


class Work(threading.Thread):
    """Creates pods until it is told to stop, and deletes some where there are too many."""

    def __init__(self, cluster: Cluster, seed: int, *, pods_per_second: float, has_peer: bool) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.created = 0
        """Pods that the API server has admitted."""
        self._per_second = pods_per_second
        self._namespace = NAMESPACES[0]
        self._cluster = cluster
        self._has_peer = has_peer
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._count = 0
        self._kinds: tuple[tuple[float, Callable[[], None]], ...] = (
            (0.34, self._single),
            (0.50, self._labelled_gang),
            (0.64, self._group),
            (0.73, self._sharers),
            (0.82, self._extended),
            (0.90, self._with_volume),
            (1.01, self._plain),
        )

    def run(self) -> None:
        """Create so many pods a second, and delete some where there are too many."""
        for namespace in NAMESPACES:
            for template in self._random.sample(_KEPT, 2):
                budget = {BUDGET: "some"} if self._random.random() < 1 / 6 else {}
                self._cluster.keep_running(namespace, template, labels=budget)
        began = time.monotonic()
        while not self.stop.wait(_PAUSE_SECONDS):
            pods = self._cluster.pods()
            waiting = sum("nodeName" not in each["spec"] for each in pods)
            if len(pods) > MOST_PODS or waiting > MOST_WAITING:
                self._thin_out(pods)
            while self.created < (time.monotonic() - began) * self._per_second and not self.stop.is_set():
                self._count += 1
                self._namespace, draw = self._random.choice(NAMESPACES), self._random.random()
                next(make for limit, make in self._kinds if draw < limit)()

    def _thin_out(self, pods: list[Json]) -> None:
        """Delete some; of a gang mostly all, or those that can never be whole again would be all that waits."""
        going = self._random.sample(pods, len(pods) // 8)
        gangs = {gang_of(each) for each in going if self._random.random() < 0.8} - {None}
        for each in pods:
            if each in going or gang_of(each) in gangs:
                self._cluster.delete_pod(each, at_once=self._random.random() < FORCED)

    def _single(self) -> None:
        if self._has_peer and self._random.random() < 0.25:
            tolerations = [{"key": POOL, "operator": "Exists"}]
            self._pod("peer", "one", schedulerName=PEER, nodeSelector={POOL: "peer"}, tolerations=tolerations)
            return
        self._pod("p", self._random.choice(list(REQUESTS)), **self._importance())

    def _labelled_gang(self) -> None:
        size, more = self._random.choice((2, 3, 4)), self._importance()
        template = self._random.choice(("one", "two", "four", "mig"))
        annotations = {MINIMUM: str(size), **self._life()}
        for member in range(size):
            labels = {GANG_LABEL: f"g{self._count}"}
            self._pod("g", template, f"-{member}", labels=labels, annotations=annotations, **more)

    def _group(self) -> None:
        size, more, name = self._random.choice((2, 3)), self._importance(), f"w{self._count}"
        body = {
            "apiVersion": GROUPS,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": self._namespace},
            "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, **more},
        }
        self._cluster.create(body)
        annotations = {NEEDED: str(size), **self._life()}
        for member in range(size):
            template = self._random.choice(("one", "two", "four"))
            group = {"podGroupName": name}
            self._pod("w", template, f"-{member}", annotations=annotations, schedulingGroup=group, **more)

    def _sharers(self) -> None:
        # All run for the same time: where only some pods of a claim have ended, the claim controller of Kubernetes 1.37
        # takes their reservation away and writes it again, hundreds of times a second.
        name, more, life = f"c{self._count}", self._importance(), self._life()
        devices = REQUESTS[self._random.choice(("one", "two", "share"))]
        meta = {"name": name, "namespace": self._namespace}
        self._cluster.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": meta,
                "spec": {"devices": devices},
            }
        )
        for sharer in range(self._random.choice((1, 2, 3))):
            self._pod("c", "", f"-{sharer}", entry={"resourceClaimName": name}, annotations=life, **more)

    def _extended(self) -> None:
        self._pod("x", "", limits={"nvidia.com/gpu": str(self._random.choice((1, 2)))}, **self._importance())

    def _with_volume(self) -> None:
        name = f"v{self._count}"
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        meta = {"name": name, "namespace": self._namespace}
        self._cluster.create(disk(self._count))  # one for each claim: claims keep theirs
        self._cluster.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
        volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": name}}]
        self._pod("v", self._random.choice(("one", "two")), volumes=volumes, **self._importance())

    def _plain(self) -> None:
        self._pod("n", "", cpu=self._random.choice(("10", "60")), **self._importance())

    def _importance(self) -> Json:
        draw = self._random.random()
        return {} if draw < 0.7 else {"priorityClassName": "high" if draw < 0.88 else "middle"}

    def _life(self) -> Json:
        return {RUN_SECONDS: str(self._random.choice((3, 8, 20)))} if self._random.random() < 0.5 else {}

    def _preparation(self) -> Json:
        """Now and then let the stand-in's drivers fail before they prepare the devices of a pod; real ones do not."""
        return {} if self._count % _FAILING else {PREPARE_FAILS: "2"}

    def _pod(
        self,
        word: str,
        template: str,
        suffix: str = "",
        *,
        entry: Json | None = None,
        limits: Json | None = None,
        cpu: str = "1",
        labels: Json | None = None,
        annotations: Json | None = None,
        **spec: Any,
    ) -> None:
        """Create a pod in the namespace of this turn; one in six is under a budget."""
        entry = entry or ({"resourceClaimTemplateName": template} if template else None)
        budget = {BUDGET: self._random.choice(("none", "some"))} if self._random.random() < 1 / 6 else {}
        resources: Json = {"requests": {"cpu": cpu, **(limits or {})}, "limits": limits or {}}
        if entry:
            resources["claims"] = [{"name": "devices"}]
            spec["resourceClaims"] = [{"name": "devices", **entry}]
        made = self._cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{word}{self._count}{suffix}",
                    "namespace": self._namespace,
                    "labels": {**(labels or {}), **budget},
                    "annotations": {**self._preparation(), **(self._life() if annotations is None else annotations)},
                },
                "spec": {
                    "schedulerName": SCHEDULER,
                    "terminationGracePeriodSeconds": self._random.choice(_GRACES),
                    "containers": [{"name": "main", "image": NO_IMAGE, "resources": resources}],
                    **spec,
                },
            }
        )
        self.created += made is not None
