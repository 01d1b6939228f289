"""Pods are on nodes that they asked for and that take them."""

from collections.abc import Iterator

from e2e.audit.inventory import selects
from e2e.audit.reading import Finding, Json, key_of
from e2e.audit.selectors import labels_of

KEEPS_OUT = ("NoSchedule", "NoExecute")
RESTART_ALL = "RestartAllContainersOnContainerExits"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def place_findings(pod: Json, node: Json) -> Iterator[Finding]:
    """Check a pod that a scheduler has bound against the labels and taints of its node."""
    subject, name = str(key_of(pod)), node["metadata"]["name"]
    labels = labels_of(node)
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        yield Finding("place", subject, f"its nodeSelector does not match {name}")
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if required is not None and not selects(required, node):
        yield Finding("place", subject, f"its required node affinity does not match {name}")
    for taint in node["spec"].get("taints") or () if "spec" in node else ():
        if taint["effect"] in KEEPS_OUT and not is_tolerated(pod, taint):
            yield Finding("taint", subject, f"it does not tolerate {taint['key']} of {name}")
    declared = (node.get("status") or {}).get("declaredFeatures") or ()
    if _restarts_all(pod) and RESTART_ALL not in declared:
        yield Finding("features", subject, f"{name} does not declare {RESTART_ALL}")


def _restarts_all(pod: Json) -> bool:
    """Say whether a container restarts all others by a rule; of features to declare the only one that ships enabled."""
    containers = (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))
    rules = (rule for each in containers for rule in each.get("restartPolicyRules") or ())
    return any(rule["action"] == "RestartAllContainers" for rule in rules)


def is_tolerated(pod: Json, taint: Json) -> bool:
    """Say whether one of a pod's tolerations covers a taint."""
    return any(_covers(each, taint) for each in pod["spec"].get("tolerations") or ())


def _covers(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
