"""
An audit of what is in an API server: whether allocations and bindings there keep the rules, whoever made them.

Reads pods, claims, slices, classes and nodes as raw JSON and checks them from the API's text alone: it shares no code
with `solver.verify` or the solver, except the door to CEL. Used for Dovetail and for kube-scheduler alike. It looks at
a cluster at rest: a slice or taint that changed after an allocation is judged as it is now.

    python -m e2e.audit --kubeconfig FILE [--kubectl PATH]      # prints a summary; 1 when something is wrong

    findings = audit(read(plane.request))                       # from a program: any (method, path) -> decoded JSON
"""

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.audit.claims import all_findings, claim_findings
from e2e.audit.inventory import Inventory
from e2e.audit.pods import node_findings, pod_findings
from e2e.audit.reading import Finding, Json, Objects, device_of, holds_node, key_of, results_of
from e2e.audit.usage import usage_findings

__all__ = ["Finding", "Objects", "audit", "read", "read_with_kubectl", "summary"]

PATHS = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "claims": "/apis/resource.k8s.io/v1/resourceclaims",
    "slices": "/apis/resource.k8s.io/v1/resourceslices",
    "classes": "/apis/resource.k8s.io/v1/deviceclasses",
}
KUBECTL_NAMES = {"claims": "resourceclaims", "slices": "resourceslices", "classes": "deviceclasses"}


def read(request: Callable[[str, str], Any]) -> Objects:
    """Read everything through `request(method, path)`, which answers with decoded JSON."""
    return Objects(**{name: request("GET", path)["items"] for name, path in PATHS.items()})


def read_with_kubectl(kubectl: str, kubeconfig: Path | None) -> Objects:
    """Read everything through kubectl; subprocess.CalledProcessError where it fails."""
    account = ("--kubeconfig", str(kubeconfig)) if kubeconfig is not None else ()

    def listed(name: str) -> list[Json]:
        kind = KUBECTL_NAMES.get(name, name)
        command = (kubectl, *account, "get", kind, "--all-namespaces", "-o", "json")
        items: list[Json] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["items"]
        return items

    return Objects(**{name: listed(name) for name in PATHS})


def audit(objects: Objects) -> list[Finding]:
    """Check everything; empty when nothing is wrong."""
    inventory = Inventory(objects.slices)
    claims = {key_of(claim): claim for claim in objects.claims}
    classes = {each["metadata"]["name"]: each for each in objects.classes}
    nodes = {each["metadata"]["name"]: each for each in objects.nodes}
    found: list[Finding] = []
    for claim in objects.claims:
        if "allocation" in claim.get("status", {}):
            found += claim_findings(claim, inventory, classes)
    found += usage_findings(objects.claims, inventory)
    for pod in filter(holds_node, objects.pods):
        found += pod_findings(pod, claims, nodes, inventory)
    found += all_findings(objects, classes, inventory)
    found += node_findings(objects.pods, nodes)
    return found


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
