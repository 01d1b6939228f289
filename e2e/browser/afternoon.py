"""
An observation for the picture of the report: four nodes with eight GPUs each in an afternoon, in memory.

The scheduler beside Dovetail spreads pods: it takes the node with the fewest GPUs in use, as kube-scheduler's default
scores do where pods ask for cpu and memory with each GPU. All devices of a claim are on one node.
"""

import json
from functools import partial
from typing import Final, NamedTuple

from e2e.fleet import fleets
from e2e.fleet.shape import Manifest
from scheduler.change import Change, Kind
from scheduler.counterfactual.comparison import ClusterComparison
from scheduler.counterfactual.fleet_measure import measured
from scheduler.counterfactual.observation_record import (
    ObservationRecord,
    ObservationSample,
    ObservationStart,
    OutcomeLine,
)
from scheduler.kube.decode.objects import decode
from scheduler.settings import default
from scheduler.worker.checked_plan import decide
from solver import SolverCache, solve
from solver.domain import Batch, Budget, Policy

BEGIN: Final = 1_795_615_200.0
"""2026-11-25 14:00 UTC."""
SECONDS: Final = 3 * 3600
OBSERVED: Final = "default-scheduler"
_ROUND: Final = 30
_SAMPLE: Final = 120
_NODES: Final = 4
_GPUS: Final = 8


class Work(NamedTuple):
    """A pod: the second in which it is created, its GPUs, and for how many seconds it runs."""

    at: int
    namespace: str
    name: str
    gpus: int
    seconds: int

    def manifests(self, node: str = "", gpus: tuple[int, ...] = ()) -> tuple[Manifest, Manifest]:
        """Return the claim and the pod, bound where a node is named."""
        uid = f"uid-{self.name}"
        metadata = {"namespace": self.namespace, "name": self.name}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": uid, "controller": True}
        exactly = {"deviceClassName": "gpu.nvidia.com", "count": self.gpus}
        claim: Manifest = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {**metadata, "uid": f"claim-{uid}", "ownerReferences": [owner]},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        }
        pod: Manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "uid": uid},
            "spec": {
                "schedulerName": OBSERVED,
                "resourceClaims": [{"name": "gpu", "resourceClaimName": self.name}],
                "containers": [{"name": "main", "image": "example.com/none"}],
            },
        }
        if node:
            driver = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": node}
            results = [{**driver, "device": f"gpu-{each}"} for each in gpus]
            consumer = {"resource": "pods", "name": self.name, "uid": uid}
            claim["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
            pod["spec"]["nodeName"] = node
        return claim, pod


WORK: Final = (
    *(Work(60 + 120 * number, "research", f"notebook-{number}", 1, 9000) for number in range(6)),
    *(Work(600 + 240 * number, "speech", f"align-{number}", 2, 2400) for number in range(6)),
    Work(1500, "vision", "train-a", 8, 3000),
    Work(1800, "vision", "train-b", 8, 2700),
    *(Work(2100 + 300 * number, "speech", f"tune-{number}", 4, 1200) for number in range(3)),
    Work(6600, "vision", "train-c", 8, 1800),
)


class Afternoon:
    """Both clusters, and the pods that really run: until which second, where, and with which GPUs."""

    def __init__(self, record: ObservationRecord) -> None:
        self._record: Final = record
        self._policy: Final[Policy] = default().policy(default().profiles[0].scheduler_name)
        self._caches: Final = SolverCache(), SolverCache()
        self._compared: Final = ClusterComparison(
            (OBSERVED,), 2.0 * _ROUND, lambda outcome: record.add(OutcomeLine(of=outcome))
        )
        self._waiting: Final[list[Work]] = []
        self._running: Final[dict[Work, tuple[int, str, tuple[int, ...]]]] = {}

    def play(self) -> None:
        """Record all of it."""
        fleet = fleets.gpu_fleet(_NODES, gpus=_GPUS)
        for kind, objects in ((Kind.CLASSES, fleet.classes), (Kind.NODES, fleet.nodes), (Kind.SLICES, fleet.slices)):
            self._show(BEGIN, kind, *objects)
        self._compared.begin(BEGIN)
        self._record.add(ObservationStart(started=BEGIN, schedulers=(OBSERVED,), tolerance_seconds=2.0 * _ROUND))
        for second in range(0, SECONDS + 1, _ROUND):
            self._spread(second)
            self._decide(BEGIN + second)
            if second % _SAMPLE == 0:
                self._sample(BEGIN + second)

    def _spread(self, second: int) -> None:
        """Let pods end and come, and let the other scheduler place those that fit."""
        for work in [work for work, (end, _, _) in self._running.items() if end <= second]:
            del self._running[work]
            for kind in (Kind.PODS, Kind.CLAIMS):
                gone = Change(kind=kind, key=f"{work.namespace}/{work.name}", value=None)
                self._compared.apply(gone, BEGIN + second)
        for work in [work for work in WORK if second - _ROUND < work.at <= second]:
            self._waiting.append(work)
            self._show_pod(second, *work.manifests())
        for work in tuple(self._waiting):
            free = self._free()
            node = max(sorted(free), key=lambda name: len(free[name]))
            if len(free[node]) >= work.gpus:
                gpus = tuple(sorted(free[node])[: work.gpus])
                self._waiting.remove(work)
                self._running[work] = second + work.seconds, node, gpus
                self._show_pod(second, *work.manifests(node, gpus))

    def _free(self) -> dict[str, set[int]]:
        """Return the GPUs that are really free, by node."""
        free = {f"gpu-{number:04}": set(range(_GPUS)) for number in range(_NODES)}
        for _, node, gpus in self._running.values():
            free[node] -= set(gpus)
        return free

    def _show_pod(self, second: int, claim: Manifest, pod: Manifest) -> None:
        self._show(BEGIN + second, Kind.CLAIMS, claim)
        self._show(BEGIN + second, Kind.PODS, pod)

    def _show(self, now: float, kind: Kind, *manifests: Manifest) -> None:
        for each in manifests:
            metadata = each["metadata"]
            key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
            self._compared.apply(Change(kind=kind, key=key, value=decode(kind, json.dumps(each).encode())), now)

    def _decide(self, now: float) -> None:
        """Decide the pods that wait in the counterfactual cluster, as an observer does."""
        self._compared.advance(now)
        copy = self._compared.counterfactual
        pods = tuple(copy.waiting())
        batch = copy.cluster.with_gangs(Batch(pods=pods))
        by_work, solver = Budget(seconds=1e9, deterministic_seconds=1.0), partial(solve, cache=self._caches[0])
        plan, _ = decide(copy.cluster.snapshot(), batch, self._policy, by_work, solver)
        if plan is None:
            raise AssertionError("the plan breaks a rule")
        self._compared.take(plan, batch, now)

    def _sample(self, now: float) -> None:
        clusters = self._compared.real, self._compared.counterfactual.cluster
        real, counterfactual = (
            measured(cluster.snapshot(), self._policy, cache)
            for cluster, cache in zip(clusters, self._caches, strict=True)
        )
        sample = ObservationSample(
            at=now,
            totals=self._compared.totals(now),
            real=real,
            counterfactual=counterfactual,
            still_open=self._compared.still_open(now),
            tolerance_seconds=2.0 * _ROUND,
        )
        self._record.add(sample)
