"""The pods that run in a cluster already."""

from typing import Final

from e2e.differential import neighbours, refinements, storage
from e2e.differential.chance import Chance
from e2e.differential.machines import EXTENDED, container
from e2e.differential.shapes import ANYTHING, NAMESPACES, Json, pod
from e2e.objects import Manifest

WEIGHTS: Final = {"finished": 0.3, "resize": 0.25}


def running(chance: Chance, prefix: str, places: list[str], store: storage.Storage) -> list[Manifest]:
    """Make pods that run on some of the nodes already; they tolerate everything, or they would be evicted."""
    found = []
    for index in range(chance.number(0, 2 * len(places))):
        spec: Json = {"nodeName": chance.pick(places), "tolerations": [ANYTHING]}
        spec["containers"] = [container("main", {})]
        if chance.often(0.7):
            requests = {"cpu": chance.pick(("100m", "500m", "1"))}
            if chance.half():
                requests["memory"] = chance.pick(("128Mi", "512Mi"))
            if chance.some("extended", 0.4):
                requests[EXTENDED] = "1"
            spec["containers"] = [container("main", requests)]
        refinements.resident(chance, spec)
        neighbours.surround(chance, spec, waits=False)
        namespace = chance.pick((NAMESPACES[0], *NAMESPACES))
        storage.mount(chance, spec, namespace, store, waits=False)
        made = pod(f"{prefix}-r{index}", namespace, spec, neighbours.labels(chance))
        if status := _status(chance):
            made["status"] = status
            if status["phase"] != "Running":  # its end would free the port of another one on its node
                made["spec"]["containers"][0].pop("ports", None)
        found.append(made)
    return found


def _status(chance: Chance) -> Json:
    """Say that a pod has finished, or that it is being resized in place: to more than it has, or to less."""
    if chance.some("finished", 0.3):
        return {"phase": chance.pick(("Succeeded", "Failed"))}
    if not chance.some("resize", 0.4):
        return {}
    amounts = {"cpu": chance.pick(("200m", "900m", "1500m")), "memory": chance.pick(("64Mi", "700Mi"))}
    container = {
        "name": "main",
        "image": "none",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "resources": {"requests": amounts},
        "allocatedResources": amounts,
    }
    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    conditions = [infeasible] if chance.often(0.4) else []
    return {"phase": "Running", "containerStatuses": [container], "conditions": conditions}
