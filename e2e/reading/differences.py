"""Disagreements between the API server and Dovetail that are known, with their reasons."""

import re
from typing import Any, Final, NamedTuple

_OF_A_SERVER: Final = frozenset(
    {
        *("uid", "creation", "creation_timestamp", "time_added"),  # set when an object is created
        *("is_stale", "is_bind_completed", "phase"),  # written by controllers; files say what they end at
        "text",  # quantities are stored in another spelling of the same amount
    }
)
_DEFAULT_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_HOSTNAME: Final = "kubernetes.io/hostname"


class Difference(NamedTuple):
    """A known difference: its name, its reason, and what the message of a disagreement says then."""

    name: str
    reason: str
    said: re.Pattern[str]


_NOTHING_TO_RUN: Final = (
    *(r"spec\.containers: Required", r"[cC]ontainers\[\d+\]\.(image|name): Required", "selector: Required"),
    *(r"restartPolicy: (Required|Unsupported|Invalid)", "does not match template", r"selector: Invalid value: \{\}"),
)
_NO_PLACE: Final = (
    *("ephemeralContainers", "securityContext", "Probe", "lifecycle", r"volumes\[", "volumeMounts", "volumeDevices"),
    *(
        r"\.env",
        "resizePolicy",
        "dnsConfig",
        "hostAliases",
        "readinessGates",
        "imagePullSecrets",
        r"status\.",
        r"csi\.",
    ),
    *(
        "[sS]trategy",
        "successPolicy",
        "podFailurePolicy",
        "managedBy",
        "ordinals",
        r"spec\.os",
        "hostUsers",
        "mountOptions",
    ),
    *("shareProcess", "restartPolicyRules", "dataSource", "more than 1 volume type", "maxFailedIndexes", "claimRef"),
    *(
        "backoffLimitPerIndex",
        *(r"spec\.(schedule|timeZone)", "podCIDRs", "volumeLifecycleModes", "manualSelector"),
        r"Workload.* spec\.(controllerRef|podGroupTemplates|compositePodGroupTemplates)",
        "hostname",
        r"metadata\.(managed|finalizers|owner|gener|uid|uID|self|resourceV|delet|annot)",
    ),
)


def _refused(*words: str) -> re.Pattern[str]:
    """Match what only the server refuses, saying one of these."""
    return re.compile(rf"the server:[^\n]*({'|'.join(words)})[\s\S]*\n  Dovetail: takes it")


DIFFERENCES: Final = (
    Difference(
        "nothing to run",
        "Containers without an image or a name, pods without containers, and workloads without a selector or a "
        "restartPolicy are decided: none of it decides where a pod goes, and what-if files leave it out.",
        _refused(*_NOTHING_TO_RUN),
    ),
    Difference(
        "CEL where it is asked for",
        "An expression that does not compile is a reason of the pods that ask for it, not of the file.",
        _refused(r"cel\.expression", "expression: "),
    ),
    Difference(
        "admission",
        "Whether a namespace allows admin access is known from a cluster or a Namespace in the files.",
        _refused("admin access to devices"),
    ),
    Difference(
        "a template without a claim",
        "A ResourceClaimTemplate without spec.spec is an error: devices were meant to stand in it, one level deeper.",
        re.compile(r"the server: takes it\n  Dovetail: spec\.spec: missing"),
    ),
    Difference(
        "null in a map or list",
        "A null value counts as absent, as `kubectl apply` has it; the server stores an empty text or 0.",
        re.compile(r"becomes (null|None)"),
    ),
    Difference(
        "two constraints in one",
        "A constraint with matchAttribute and distinctAttribute is an error: the second one would count for nothing.",
        re.compile(r"the server: takes it\n  Dovetail: .*are both there"),
    ),
    Difference(
        "more pods than a cluster holds",
        "A workload of more than 150,000 pods is an error: each is made here.",
        re.compile(r"the server: takes it\n  Dovetail: .*makes \d+ pods"),
    ),
    Difference(
        "a kubelet",
        "A Node whose manifest says nothing of its room gets some, with a note, as a kubelet would write it.",
        re.compile(r"(^|read: )allocatable: "),
    ),
    Difference(
        "what does not place a pod",
        "Fields that place no pod (probes, hooks, volumes of other kinds, security, status, owners and other metadata) "
        "are held to their types only.",
        _refused(*_NO_PLACE),
    ),
)


def known(body: dict[str, Any], changes: tuple[str, ...], said: str) -> str:
    """Return the name of the known difference; empty for a disagreement that is none."""
    del body
    text = "\n".join((said, *changes))
    return next((each.name for each in DIFFERENCES if each.said.search(text)), "")


def comparable(value: Any) -> Any:
    """Return a decoded object without what only a server knows, and what it or a kubelet adds."""
    if isinstance(value, dict):
        found = {key: comparable(each) for key, each in value.items() if key not in _OF_A_SERVER}
        if isinstance(found.get("tolerations"), list | tuple):
            added = [each for each in found["tolerations"] if _key(each) not in _DEFAULT_TOLERATIONS]
            found["tolerations"] = added
        if "containers" in found:
            found.pop("generation", None)  # of a pod's spec, counted by the server
        if isinstance(found.get("labels"), list | tuple):
            found["labels"] = [each for each in found["labels"] if each[0] != _HOSTNAME]
        return found
    return [comparable(each) for each in value] if isinstance(value, list | tuple) else value


def _key(toleration: Any) -> str:
    return str(toleration.get("key")) if isinstance(toleration, dict) else ""
