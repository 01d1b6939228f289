"""What kubelets and drivers write into the status of pods and claims: pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from e2e.controlplane.wire import AllocatedDevice, Claim, Container, Pod

UNHEALTHY: Final = "dovetail.dev/unhealthy"
"""Annotation of a claim: names of its devices, with commas between, that their drivers call unhealthy."""

Json = dict[str, Any]

_STATES: Final = dict.fromkeys(("waiting", "running", "terminated"))
"""Of a container: it has one of them, and a patch takes the others away."""


def now() -> str:
    """Return the time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unprepared(pod: Pod) -> Json:
    """Return the status of a pod whose claims could not be prepared: its containers wait, there is no sandbox yet."""
    false = {"PodReadyToStartContainers": "PodSandboxNotReady"}
    false |= dict.fromkeys(("ContainersReady", "Ready"), "ContainersNotReady")
    time, state = now(), {"waiting": {"reason": "ContainerCreating"}}
    return {
        "phase": "Pending",
        "startTime": pod.status.start_time or time,
        "conditions": [
            {"type": "Initialized", "status": "True", "lastTransitionTime": time},
            *(_false(name, reason, time) for name, reason in false.items()),
        ],
        "containerStatuses": _container_statuses(pod, state, is_ready=False),
    }


def running(pod: Pod, claims: Mapping[str, Claim], number: int) -> Json:
    """Return the status of a pod whose containers have started with these claims; the number gives it its address."""
    time = now()
    ip = f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{number & 255}"
    conditions = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    true = {"status": "True", "reason": None, "lastTransitionTime": time}
    return {
        "phase": "Running",
        "startTime": pod.status.start_time or time,
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [{"type": name, **true} for name in conditions],
        "containerStatuses": [
            {**status, **health}
            for status, health in zip(
                _container_statuses(pod, {"running": {"startedAt": time}}, is_ready=True),
                device_health(pod, claims)["containerStatuses"],
                strict=True,
            )
        ],
    }


def device_health(pod: Pod, claims: Mapping[str, Claim]) -> Json:
    """Return the part of a pod's status that says how the devices of its containers are."""
    return {
        "containerStatuses": [
            {"name": container.name, "allocatedResourcesStatus": _devices_of(container, pod, claims)}
            for container in pod.spec.containers
        ]
    }


def ended(pod: Pod, exit_code: int, phase: str) -> Json:
    """Return the status of a pod whose containers have ended."""
    time = now()
    reason = "Error" if exit_code else "Completed"
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": time}}
    return {
        "phase": phase,
        "conditions": [_false(name, "PodCompleted", time) for name in ("ContainersReady", "Ready")],
        "containerStatuses": _container_statuses(pod, state, is_ready=False),
    }


def bound_device(device: AllocatedDevice, *, is_failure: bool) -> Json:
    """Return the entry of `status.devices` by which a driver answers a device's binding conditions."""
    true = device.binding_failure_conditions if is_failure else device.binding_conditions
    time = now()
    status = {
        "driver": device.driver,
        "pool": device.pool,
        "device": device.device,
        "conditions": [
            {"type": name, "status": "True", "reason": "StandIn", "message": "", "lastTransitionTime": time}
            for name in true
        ],
    }
    return status if device.share_id is None else {**status, "shareID": device.share_id}


def warning(pod: Pod, name: str, reason: str, message: str) -> Json:
    """Return a kubelet's event about a pod, given for the first time."""
    time, metadata = now(), pod.metadata
    return {
        "metadata": {"name": name, "namespace": metadata.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": pod.spec.node_name},
        "reportingComponent": "kubelet",
        "reportingInstance": pod.spec.node_name,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
    }


def _devices_of(container: Container, pod: Pod, claims: Mapping[str, Claim]) -> list[Json]:
    """Tell of each claim or request that a container uses; of a request that its claim does not have, nothing."""
    names, found = pod.claims_by_entry(), {}
    for used in container.resources.claims:
        claim = claims.get(names.get(used.name, ""))
        if claim is not None and (resources := _health(claim, used.request)):
            found[f"claim:{used.name}/{used.request}" if used.request else f"claim:{used.name}"] = resources
    return [{"name": name, "resources": resources} for name, resources in found.items()]


def _health(claim: Claim, request: str) -> list[Json]:
    """Tell of the devices of a request, or of all where none is named."""
    top = request.partition("/")[0]
    unhealthy = claim.metadata.annotations.get(UNHEALTHY, "").split(",")
    health = {
        f"{device.driver}/{device.pool}/{device.device}": device.device in unhealthy
        for device in claim.results
        if not request or device.top_request == top
    }
    return [{"resourceID": name, "health": "Unhealthy" if is_bad else "Healthy"} for name, is_bad in health.items()]


def _false(name: str, reason: str, time: str) -> Json:
    return {"type": name, "status": "False", "reason": reason, "lastTransitionTime": time}


def _container_statuses(pod: Pod, state: Mapping[str, Json], *, is_ready: bool) -> list[Json]:
    return [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": is_ready,
            "started": is_ready,
            "restartCount": 0,
            "state": {**_STATES, **state},
        }
        for container in pod.spec.containers
    ]
