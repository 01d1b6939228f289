"""
One pod with a claim, from its creation to its end: what `dovetail check --test-pod` makes, watches and removes.

The claim is owned by the pod, so that Kubernetes removes it even where this process is killed. Both have a label, by
which the next check removes what an earlier one could not.
"""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.errors import ApiError, KubeError, NotFound
from solver.domain import ClaimId, PodId

LABEL: Final = "dovetail.dev/check"
"""The label of the objects of a check."""
_POLL_SECONDS: Final = 0.25
_REMOVE_SECONDS: Final = 60.0
_SECONDS: Final = 10.0

Json = dict[str, Any]


class TrialPod(NamedTuple):
    """Where and how a pod is tried: its image never runs anything but a pause."""

    namespace: str
    scheduler_name: str
    device_class: str
    image: str
    seconds: float


class TrialStep(NamedTuple):
    """A step of a trial: whether it went well, None where it was not tried."""

    name: str
    is_good: bool | None
    message: str
    next_step: str = ""


Say = Callable[[TrialStep], None]


def run(access: ClusterAccess, trial: TrialPod, say: Say) -> None:
    """Try a pod, and say each step when it has ended. Nothing is left, after Ctrl-C too. Raise `KubeError`."""
    asyncio.run(_run(access, trial, say))


async def _run(access: ClusterAccess, trial: TrialPod, say: Say) -> None:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with access.connect() as client:
        if await _is_missing(client, trial.namespace):
            step = f"kubectl create namespace {trial.namespace}; -n chooses another one"
            say(
                TrialStep(
                    "test pod", is_good=False, message=f"namespace {trial.namespace} does not exist", next_step=step
                )
            )
            return
        async with _made(client, trial, say) as name:
            if name is not None:
                await _watch(client, trial, name, say)


async def _is_missing(client: Client, namespace: str) -> bool:
    """Whether a namespace does not exist; one that may not be read counts as there."""
    try:
        await client.request("GET", f"{paths.CORE}/namespaces/{namespace}", timeout_seconds=_SECONDS)
    except NotFound:
        return True
    except KubeError:
        return False
    return False


@asynccontextmanager
async def _made(client: Client, trial: TrialPod, say: Say) -> AsyncIterator[PodId | None]:
    """Make pod and claim for the block, and remove them afterwards whatever happens; None where they are refused."""
    name = PodId(trial.namespace, f"dovetail-check-{secrets.token_hex(3)}")
    await _remove_left(client, trial.namespace)
    try:
        refusal = await _create(client, trial, name)
        say(TrialStep("test pod", not refusal, refusal or f"{name} and its claim were created"))
        yield None if refusal else name
    finally:
        left = await _remove(client, name)
        say(TrialStep("removed", not left, f"{left} is still there" if left else "the test pod and its claim are gone"))


async def _create(client: Client, trial: TrialPod, name: PodId) -> str:
    """Create claim and pod; return why the API server refuses one."""
    labels = {LABEL: "true"}
    requests = [{"name": "device", "exactly": {"deviceClassName": trial.device_class}}]
    claim = _object("resource.k8s.io/v1", "ResourceClaim", name, {"devices": {"requests": requests}})
    container = {
        "name": "pause",
        "image": trial.image,
        "resources": {"claims": [{"name": "device"}]},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65535,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {
        "schedulerName": trial.scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "resourceClaims": [{"name": "device", "resourceClaimName": name.name}],
    }
    try:
        await _post(client, paths.claims(name.namespace), claim)
        pod = await _post(client, f"{paths.CORE}/namespaces/{name.namespace}/pods", _object("v1", "Pod", name, spec))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name.name, "uid": pod["metadata"]["uid"]}
        await client.request(
            "PATCH",
            paths.claim(ClaimId(*name)),
            body=msgspec.json.encode({"metadata": {"ownerReferences": [owner], "labels": labels}}),
            content_type=MERGE_PATCH,
            timeout_seconds=_SECONDS,
        )
    except ApiError as error:
        return str(error)
    return ""


def _object(api_version: str, kind: str, name: PodId, spec: Json) -> Json:
    metadata = {"name": name.name, "namespace": name.namespace, "labels": {LABEL: "true"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


async def _post(client: Client, path: str, body: Json) -> Json:
    answer = await client.request("POST", path, body=msgspec.json.encode(body), timeout_seconds=_SECONDS)
    decoded: Json = msgspec.json.decode(answer)
    return decoded


async def _watch(client: Client, trial: TrialPod, name: PodId, say: Say) -> None:
    """Say whether the claim was allocated, the pod bound, and its container started."""
    ends = asyncio.get_running_loop().time() + trial.seconds
    pod = await _until(client, name, ends, lambda seen: bool(seen["spec"].get("nodeName")))
    claim = await _get(client, paths.claim(ClaimId(*name)))
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    devices = [f"{each['driver']}/{each['pool']}/{each['device']}" for each in results]
    say(TrialStep("allocated", bool(devices), ", ".join(devices) or f"no device within {trial.seconds:g} s"))
    node = pod["spec"].get("nodeName", "")
    say(TrialStep("bound", bool(node), f"to node {node}" if node else _why(pod, trial)))
    if not node:
        say(TrialStep("started", None, "it was not bound"))
        return
    pod = await _until(client, name, ends, lambda seen: seen["status"].get("phase") not in {"", "Pending"})
    phase = pod["status"].get("phase", "")
    is_started = phase in {"Running", "Succeeded"}
    say(TrialStep("started", is_started, "its container runs with the device" if is_started else _why_not_started(pod)))


def _why(pod: Json, trial: TrialPod) -> str:
    conditions = (each for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled")
    message = next((each.get("message", "") for each in conditions), "")
    return message or f"no scheduler {trial.scheduler_name} has looked at it within {trial.seconds:g} s"


def _why_not_started(pod: Json) -> str:
    statuses = pod["status"].get("containerStatuses", [])
    waiting: Json = next((each["state"]["waiting"] for each in statuses if "waiting" in each.get("state", {})), {})
    why = waiting.get("message") or waiting.get("reason") or pod["status"].get("message", "")
    return f"its container has not started: {why}" if why else "its container has not started"


async def _until(client: Client, name: PodId, ends: float, is_so: Callable[[Json], bool]) -> Json:
    """Read the pod until something is so, or the time is over; return it as it is then."""
    while True:
        pod = await _get(client, paths.pod(name))
        if is_so(pod) or asyncio.get_running_loop().time() >= ends:
            return pod
        await asyncio.sleep(_POLL_SECONDS)


async def _get(client: Client, path: str) -> Json:
    found: Json = msgspec.json.decode(await client.request("GET", path))
    return found


async def _remove(client: Client, name: PodId) -> str:
    """Delete pod and claim, and wait until they are gone; return what is left after a minute."""
    left = {f"pod {name}": paths.pod(name), f"claim {name}": paths.claim(ClaimId(*name))}
    ends = asyncio.get_running_loop().time() + _REMOVE_SECONDS
    problem = ""
    while True:
        for what, path in tuple(left.items()):
            is_gone, problem = await _is_gone(client, path)
            if is_gone:
                del left[what]
        if not left or asyncio.get_running_loop().time() >= ends:
            return " and ".join(left) + (f" ({problem})" if left and problem else "")
        await asyncio.sleep(_POLL_SECONDS)


async def _is_gone(client: Client, path: str) -> tuple[bool, str]:
    """Delete an object; return whether it is not there any more, and what went wrong, if anything did."""
    options = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    try:
        await client.request("DELETE", path, body=options, timeout_seconds=_SECONDS)
        await client.request("GET", path)
    except NotFound:
        return True, ""
    except KubeError as error:
        return False, str(error)
    return False, ""


async def _remove_left(client: Client, namespace: str) -> None:
    """Delete what an earlier check left in the namespace."""
    for path in (f"{paths.CORE}/namespaces/{namespace}/pods", paths.claims(namespace)):
        with suppress(KubeError):
            await client.request("DELETE", path, query={"labelSelector": LABEL}, timeout_seconds=_SECONDS)
