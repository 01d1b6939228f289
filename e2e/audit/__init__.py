"""
An audit of what is in an API server: whether allocations and bindings there keep the rules, of any scheduler.

Reads pods, nodes, claims, slices, classes and volumes as raw JSON and checks them from the API's text alone: it shares
no code with `solver.verify` or the solver, except the door to CEL. Used for Dovetail and for kube-scheduler alike. It
looks at a cluster at rest: a slice, taint or label that has changed since an allocation or a binding is judged as it is
now, and pods that are gone are missed. Pods that were not bound by a scheduler may be where they want.

    python -m e2e.audit --kubeconfig FILE [--kubectl PATH]      # prints a summary; 1 when something is wrong

    findings = audit(read(plane.request))                       # from a program: any (method, path) -> decoded JSON

`leftovers` (`--leftovers`) looks for what is held for no running pod. `history` checks the whole past of allocations,
from the API server's audit log:

    python -m e2e.audit --log audit.log --about gpu-3       # its holders, from when to when; 1 when something is wrong
"""

import contextlib
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.audit.claims import all_findings, claim_findings
from e2e.audit.inventory import Inventory
from e2e.audit.leftovers import leftovers
from e2e.audit.neighbours import Neighbourhood
from e2e.audit.places import place_findings
from e2e.audit.pods import node_findings, pod_findings
from e2e.audit.reading import Finding, Json, Objects, device_of, holds_node, is_scheduled, key_of, results_of
from e2e.audit.selectors import labels_of
from e2e.audit.usage import usage_findings
from e2e.audit.volumes import Storage
from e2e.controlplane import versions
from e2e.controlplane.access import RequestError

__all__ = ["Finding", "Objects", "audit", "leftovers", "read", "read_with_kubectl", "results_of", "summary"]

PATHS = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "claims": "/apis/resource.k8s.io/v1/resourceclaims",
    "slices": "/apis/resource.k8s.io/v1/resourceslices",
    "classes": "/apis/resource.k8s.io/v1/deviceclasses",
    "namespaces": "/api/v1/namespaces",
    "volumes": "/api/v1/persistentvolumes",
    "volume_claims": "/api/v1/persistentvolumeclaims",
    "volume_limits": "/apis/storage.k8s.io/v1/csinodes",
}
GROUPS_PATHS = tuple(f"/apis/{version}/podgroups" for version in reversed(versions.POD_GROUPS.values()))
"""The newest first."""
KUBECTL_NAMES = {
    "claims": "resourceclaims",
    "slices": "resourceslices",
    "classes": "deviceclasses",
    "volumes": "persistentvolumes",
    "volume_claims": "persistentvolumeclaims",
    "volume_limits": "csinodes",
}


def read(request: Callable[[str, str], Any]) -> Objects:
    """Read everything through `request(method, path)`, which answers with decoded JSON."""
    groups: list[Json] = []
    for path in GROUPS_PATHS:
        with contextlib.suppress(RequestError):
            groups = request("GET", path)["items"]
            break
    return Objects(**{name: request("GET", path)["items"] for name, path in PATHS.items()}, groups=groups)


def read_with_kubectl(kubectl: str, kubeconfig: Path | None) -> Objects:
    """Read everything through kubectl; subprocess.CalledProcessError where it fails."""
    account = ("--kubeconfig", str(kubeconfig)) if kubeconfig is not None else ()

    def listed(name: str) -> list[Json]:
        kind = KUBECTL_NAMES.get(name, name)
        command = (kubectl, *account, "get", kind, "--all-namespaces", "-o", "json")
        items: list[Json] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["items"]
        return items

    groups: list[Json] = []
    with contextlib.suppress(subprocess.CalledProcessError):
        groups = listed("podgroups.scheduling.k8s.io")
    return Objects(**{name: listed(name) for name in PATHS}, groups=groups)


def audit(objects: Objects) -> list[Finding]:
    """Check everything; empty when nothing is wrong."""
    inventory = Inventory(objects.slices)
    claims = {key_of(claim): claim for claim in objects.claims}
    classes = {each["metadata"]["name"]: each for each in objects.classes}
    nodes = {each["metadata"]["name"]: each for each in objects.nodes}
    groups = {key_of(group): group["metadata"]["uid"] for group in objects.groups}
    found: list[Finding] = []
    for claim in objects.claims:
        if "allocation" in claim.get("status", {}):
            found += claim_findings(claim, inventory, classes)
    found += usage_findings(objects.claims, inventory)
    for pod in filter(holds_node, objects.pods):
        found += pod_findings(pod, claims, nodes, groups, inventory)
    found += all_findings(objects, classes, inventory)
    found += node_findings(objects.pods, nodes)
    return found + _around(objects, nodes)


def _around(objects: Objects, nodes: dict[str, Json]) -> list[Finding]:
    """Check pods against the labels and taints of their nodes, against each other, and against their volumes."""
    holding = [each for each in objects.pods if holds_node(each)]
    scheduled = [each for each in holding if is_scheduled(each) and each["spec"]["nodeName"] in nodes]
    namespaces = {each["metadata"]["name"]: labels_of(each) for each in objects.namespaces}
    storage = Storage(
        claims={key_of(each): each for each in objects.volume_claims},
        volumes={each["metadata"]["name"]: each for each in objects.volumes},
        limits={each["metadata"]["name"]: each for each in objects.volume_limits},
    )
    return [
        *(finding for pod in scheduled for finding in place_findings(pod, nodes[pod["spec"]["nodeName"]])),
        *Neighbourhood(holding, scheduled, nodes, namespaces).findings(),
        *storage.findings(scheduled, nodes),
    ]


def summary(objects: Objects, findings: list[Finding]) -> str:
    """Say in a few lines what was there and what is wrong with it."""
    allocated = [claim for claim in objects.claims if "allocation" in claim.get("status", {})]
    devices = {device_of(result) for claim in allocated for result in results_of(claim)}
    bound = sum(map(holds_node, objects.pods))
    there = (
        f"{bound} of {len(objects.pods)} pods are bound, {len(allocated)} of {len(objects.claims)} claims are "
        f"allocated, {len(devices)} devices are in use on {len(objects.nodes)} nodes"
    )
    lines = [f"  {finding.rule:10} {finding.subject}: {finding.message}" for finding in findings]
    wrong = ", ".join(f"{count} × {rule}" for rule, count in sorted(Counter(each.rule for each in findings).items()))
    return "\n".join((there, *lines, f"wrong: {wrong}" if wrong else "nothing is wrong"))
