"""
A fleet that decays: on nodes of their own pods scatter, then a gang finds no room, a card fails, or a node goes.

Elsewhere most pods have no controller, and the nodes are full: repairs find nothing to do there. Here each case can be
repaired by moves, has some time for it, and is undone before the next one.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from e2e.audit.leftovers import GANG_LABEL, MINIMUM
from e2e.audit.reading import Finding, Json, claims_of, results_of
from e2e.chaos.cluster import MERGE, RESOURCE, SCHEDULER, WORN_NAMESPACE, WORN_TAINT, Cluster, maintained
from e2e.chaos.for_kubelets import NO_IMAGE
from e2e.chaos.progress import report

_SINGLES: Final = 5
"""Pods with one device: on three nodes of four devices each, no two nodes have three free ones if they are spread."""
_MEMBERS: Final = 2
_LABELS: Final = {"chaos": "worn"}
"""Of the pods with one device."""
_START_SECONDS: Final = 20.0
_REPAIR_SECONDS: Final = 25.0
"""Longer than a leader that dies keeps its Lease, and the next one needs to read the cluster."""
_FEW: Final = 3
"""In so many cases one leader or another may have had no time to repair anything."""
_END_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.5
_PODS: Final = f"/api/v1/namespaces/{WORN_NAMESPACE}/pods"
_CLAIMS: Final = f"{RESOURCE}/namespaces/{WORN_NAMESPACE}/resourceclaims"


class Decay(threading.Thread):
    """Makes one case after the other until it is told to stop; `cases` counts those that had their time."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.cases = self.repaired = 0
        self._cluster = cluster
        self._random = random.Random(f"decay {seed}")  # noqa: S311 - no secret
        self._count = 0

    def run(self) -> None:
        """Go through the kinds of cases, in turn: a short run has each of them, too."""
        kinds = (self._gang_waits, self._card_fails, self._node_goes)
        while not self.stop.is_set():
            if self._fill():
                self._wait_for(*kinds[self._count % len(kinds)]())
            self._clear()
            self._count += 1

    def findings(self, plans: int, moves: int) -> list[Finding]:
        """Report what was carried out, and find that it was nothing."""
        report(f"decay: {self.cases} cases, {self.repaired} well again; {plans} plans with {moves} moves carried out")
        if moves or self.cases < _FEW:
            return []
        return [Finding("idle", "repairs", f"{self.cases} cases of decay, and no pod was moved: this shows nothing")]

    def _fill(self) -> bool:
        """Let pods that prefer to be apart come to the nodes; whether they all run."""
        spec = _spec("one", apart=True)
        self._cluster.replicate(f"worn-{self._count}", _SINGLES, spec, namespace=WORN_NAMESPACE, labels=_LABELS)
        return self._comes(lambda: sum(map(_runs, self._pods())) >= _SINGLES, _START_SECONDS)

    def _gang_waits(self) -> tuple[str, Callable[[], bool]]:
        """Let pods wait that want three devices of one node each."""
        name = f"wide-{self._count}"
        for member in range(_MEMBERS):
            metadata = {
                "name": f"{name}-{member}",
                "namespace": WORN_NAMESPACE,
                "labels": {GANG_LABEL: name},
                "annotations": {MINIMUM: str(_MEMBERS)},
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec("three")}
            self._cluster.create(pod)

        def is_there() -> bool:
            return (
                sum(_runs(pod) and GANG_LABEL in pod["metadata"].get("labels", {}) for pod in self._pods()) >= _MEMBERS
            )

        return f"gang {name} waits", is_there

    def _card_fails(self) -> tuple[str, Callable[[], bool]]:
        """Taint a device that a pod has."""
        held = list(self._held())
        if not held:
            return "no card is in use", lambda: True
        node, device = self._random.choice(held)
        (manifest,) = (each for each in self._cluster.fleet.slices if each["spec"].get("nodeName") == node)
        self._cluster.republish(manifest, tainted=(device,))
        return f"card {device} of {node} fails", lambda: (node, device) not in set(self._held())

    def _node_goes(self) -> tuple[str, Callable[[], bool]]:
        """Cordon a node with pods, or announce its maintenance."""
        names = sorted({pod["spec"]["nodeName"] for pod in self._pods() if _runs(pod)})
        if not names:
            return "no node is in use", lambda: True
        name, is_cordoned = self._random.choice(names), self._random.random() < 0.5
        spec = {"unschedulable": True} if is_cordoned else maintained()
        self._cluster.request("PATCH", f"/api/v1/nodes/{name}", {"spec": spec}, content=MERGE)
        what = "is cordoned" if is_cordoned else "goes into maintenance"
        return f"node {name} {what}", lambda: all(pod["spec"].get("nodeName") != name for pod in self._pods())

    def _wait_for(self, what: str, is_repaired: Callable[[], bool]) -> None:
        report(what)
        began = time.monotonic()
        is_well = self._comes(is_repaired, _REPAIR_SECONDS)
        self.repaired += is_well
        self.cases += is_well or not self.stop.is_set()
        seconds = time.monotonic() - began
        report(f"{what}: {f'well again after {seconds:.0f} s' if is_well else f'not repaired within {seconds:.0f} s'}")

    def _clear(self) -> None:
        """Undo it all, and wait until the pods are gone."""
        self._cluster.restore_worn()
        self._cluster.keep_no_more(WORN_NAMESPACE)
        for pod in self._pods():
            self._cluster.delete_pod(pod, at_once=False)
        self._comes(lambda: not self._pods(), _END_SECONDS)

    def _comes(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Wait so long for something; whether it has come."""
        end = time.monotonic() + seconds
        while not (found := is_so()) and time.monotonic() < end and not self.stop.wait(_POLL_SECONDS):
            pass
        return found

    def _pods(self) -> list[Json]:
        return self._cluster.listed(_PODS)

    def _held(self) -> Iterator[tuple[str, str]]:
        """Yield node and device of each claim of a pod that runs."""
        claims = {each["metadata"]["name"]: each for each in self._cluster.listed(_CLAIMS)}
        for pod in filter(_runs, self._pods()):
            for name in claims_of(pod):
                yield from ((each["pool"], each["device"]) for each in results_of(claims.get(name, {})))


def _runs(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"]


def _spec(template: str, *, apart: bool = False) -> Json:
    """Return the spec of a pod that may use the nodes of this scene alone."""
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": "devices"}]}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _LABELS},
    }
    return {
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {WORN_TAINT: "true"},
        "tolerations": [{"key": WORN_TAINT, "operator": "Exists"}],
        "containers": [{"name": "main", "image": NO_IMAGE, "resources": resources}],
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
        **({"topologySpreadConstraints": [spread]} if apart else {}),
    }
