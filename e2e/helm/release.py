"""The chart in the hands of Helm: linted, rendered, installed, upgraded, rolled back, removed on a real API server."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console

from e2e.controlplane.plane import ControlPlane
from e2e.helm import certificates
from e2e.helm.cases import CASES, Case, Values, comparable
from e2e.helm.command import RELEASE, ChartError, Helm
from e2e.helm.kustomize import Manifest, key
from e2e.helm.templates import CHART, NAMESPACE

AGGREGATED: Final = "dovetail-operator"
KEPT: Final = ("CustomResourceDefinition", "devicequotas.dovetail.dev")
"""What stays when a release is removed, by kind and name: objects of this kind are people's."""
SECONDS: Final = 60.0
REFUSED: Final = ("replica=3", "config.solver.budget=1", "features.preemption=yes", "api.enabled=1")
"""Values that the schema refuses: unknown names and wrong types, in Dovetail's configuration too."""
_OWNED: Final[Values] = {"config": {"devices": {"owned": {}}}}
UNFIT: Final[tuple[Values, ...]] = (
    {"scheduler": {"enabled": False}},
    {"scheduler": {"enabled": False}, "observe": {"enabled": True}, "page": {"enabled": True}},
    {"scheduler": {"enabled": False}, "observe": {"enabled": True}, "admission": {"limits": {"enabled": True}}},
    {"page": {"enabled": True}, "userRoles": False, **_OWNED},
    {"certificates": {"source": "chart"}, **_OWNED},
    {"api": {"enabled": True}, "certificates": {"source": "cert-manager"}, **_OWNED},
    {"api": {"enabled": True}, "certificates": {"source": "acme"}, **_OWNED},
    {},
    {"config": {"devices": {"groupLabels": []}}},
)
"""Values that fit the schema, and not each other; or of which one is missing that only the user can choose."""
_POD: Final[Values] = {
    "imagePullSecrets": [{"name": "mine"}],
    "nodeSelector": {"kubernetes.io/os": "linux", "example.com/pool": "system"},
    "tolerations": [{"key": "example.com/system", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"example.com/team": "platform"}}},
    ]}},
}  # fmt: skip
CHANGED: Final[Values] = {
    **_POD,
    "replicas": 3,
    "image": {"repository": "registry.example.com/other", "digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
    "podAnnotations": {"example.com/number": "1"},
    "podLabels": {"example.com/team": "platform"},
    "features": {"preemption": False, "podGroups": False},
    "config": {"leaderElection": {"leaseName": "other"}, **_OWNED["config"]},
    "monitoring": {
        "podMonitor": True,
        "labels": {"release": "kube-prometheus-stack"},
        "endpoint": {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}},
    },
    "networkPolicy": False,
}
"""Values that the overlays leave as they are."""
_DEFINITION: Final = {
    "group": "monitoring.coreos.com",
    "scope": "Namespaced",
    "versions": [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }
    ],
}
"""The kinds of the Prometheus Operator, without what it knows of their fields."""


def run(console: Console, folder: Path) -> None:
    """Do all of it and say each step. Raises ChartError at the first difference."""
    helm = Helm(folder)
    _lint(helm)
    console.print("linted; what the schema must refuse is refused")
    for case in CASES:
        _compare(case.name, comparable(helm.rendered(case.chart_values())), comparable(case.objects()))
    console.print(f"rendered as kustomize does: {', '.join(case.name for case in CASES)}")
    _move(helm)
    with ControlPlane.start(critical_quota=True) as plane:
        helm = Helm(folder, str(plane.kubeconfig))
        _prepare(plane)
        for case in CASES:
            _install(case, helm, plane)
        console.print("installed, the objects on the API server are those of kustomize; removed, none is left")
        _adopt(helm, plane)
        console.print("upgraded from an observer alone to the scheduler beside it; the observer went on")
        _upgrade(helm, plane)
        console.print("upgraded to other values, rolled back, removed")
        certificates.check(helm, plane)
        _wait("the release with certificates is removed", lambda: _are_gone(plane, helm.rendered(certificates.OWN)))
        console.print(
            "the chart's certificates fit keys and names, and stay at an upgrade; cert-manager is asked for its own"
        )
        _admit(helm, plane)
        console.print("pods are admitted by the quota, refused without it, admitted without it under another class")


def _lint(helm: Helm) -> None:
    for case in CASES:
        helm("lint", "--strict", str(CHART), values=case.chart_values())
    for wrong in REFUSED:
        try:
            helm("lint", str(CHART), "--set", wrong)
        except ChartError as error:
            if "schema" in str(error):
                continue
            raise
        raise ChartError(f"the schema lets {wrong} by")
    for case in CASES:
        printed = helm("install", RELEASE, str(CHART), "--dry-run=client", values=case.chart_values())
        if "\n\n\n" in printed.partition("NOTES:")[2]:
            raise ChartError(f"{case.name}: NOTES.txt prints two blank lines in a row")
    for values in UNFIT:
        try:
            helm.rendered(values)
        except ChartError as error:
            if "write" in str(error).lower() or "needs" in str(error):
                continue
            raise
        raise ChartError(f"the chart takes {values}")


def _move(helm: Helm) -> None:
    """In another namespace the chart has nothing of the one that the manifests name."""
    for case in CASES:
        text = helm("template", RELEASE, str(CHART), "--namespace", "elsewhere", values=case.chart_values())
        if NAMESPACE in text:
            raise ChartError(f"{case.name}: the chart names {NAMESPACE} in the namespace elsewhere")


def _prepare(plane: ControlPlane) -> None:
    for kind, plural in (("PodMonitor", "podmonitors"), ("PrometheusRule", "prometheusrules")):
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{_DEFINITION['group']}"},
            "spec": {**_DEFINITION, "names": {"kind": kind, "plural": plural}},
        }
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(definition))
    plane.kubectl("wait", "--for=condition=established", "--timeout=60s", "crd", "--all")
    plane.kubectl("create", "namespace", "monitoring")


def _install(case: Case, helm: Helm, plane: ControlPlane) -> None:
    """Install a case with Helm and remove it, then with kustomize: the same must be there, and nothing afterwards."""
    manifests = case.objects()
    helm("install", RELEASE, str(CHART), "--create-namespace", values=case.chart_values())
    by_helm = _there(plane, helm.rendered(case.chart_values()))
    helm("uninstall", RELEASE)
    if KEPT in by_helm and KEPT not in _there(plane, manifests):
        raise ChartError(f"{case.name}: Helm has deleted {KEPT[1]}, and all quotas with it")
    _wait(f"{case.name} is removed", lambda: _are_gone(plane, manifests))
    plane.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all(manifests))
    by_kustomize = _there(plane, manifests)
    plane.kubectl("delete", "-f", "-", input=yaml.safe_dump_all(manifests))
    _wait(f"{case.name} is removed", lambda: _are_gone(plane, manifests))
    _compare(case.name, by_helm, by_kustomize)


def _upgrade(helm: Helm, plane: ControlPlane) -> None:
    first, second = next(case for case in CASES if case.name == "example").chart_values(), CHANGED
    every = [*helm.rendered(first), *helm.rendered(second)]
    helm("install", RELEASE, str(CHART), values=first)
    before = _there(plane, every)
    helm("upgrade", RELEASE, str(CHART), values=second)
    changed = _there(plane, every)
    _compare("upgrade", dict.fromkeys(changed), dict.fromkeys(comparable(helm.rendered(second))))
    _check_changed(changed)
    helm("rollback", RELEASE, "1")
    _compare("rollback", _there(plane, every), before)
    helm("uninstall", RELEASE)
    _wait("the release is removed", lambda: _are_gone(plane, every))


def _adopt(helm: Helm, plane: ControlPlane) -> None:
    """From an observer alone to the scheduler beside it: the pod of the observer stays, and its record with it."""
    alone, beside = (case for case in CASES if case.name in {"observe", "observe-beside"})
    observer = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/dovetail-observe"
    helm("install", RELEASE, str(CHART), values=alone.chart_values())
    before = plane.request("GET", observer)["metadata"]["generation"]
    helm("upgrade", RELEASE, str(CHART), values=beside.chart_values())
    manifests = helm.rendered(beside.chart_values())
    _compare("adopt", dict.fromkeys(_there(plane, manifests)), dict.fromkeys(comparable(manifests)))
    if plane.request("GET", observer)["metadata"]["generation"] != before:
        raise ChartError("the upgrade makes the pod of the observer anew")
    helm("uninstall", RELEASE)
    _wait("the release is removed", lambda: _are_gone(plane, manifests))


def _check_changed(found: dict[tuple[str, str], Any]) -> None:
    deployment = found["Deployment", RELEASE]["spec"]
    pod, metadata = deployment["template"]["spec"], deployment["template"]["metadata"]
    (container,) = pod["containers"]
    image, monitoring, monitor = CHANGED["image"], CHANGED["monitoring"], found["PodMonitor", RELEASE]
    pairs = [
        (found["Role", RELEASE]["rules"][1]["resourceNames"], ["other"]),
        (monitor["metadata"]["labels"], monitoring["labels"]),
        (monitor["spec"]["podMetricsEndpoints"], [{"path": "/metrics", "port": "metrics", **monitoring["endpoint"]}]),
        (deployment["replicas"], CHANGED["replicas"]),
        (container["image"], f"{image['repository']}@{image['digest']}"),
        (container["imagePullPolicy"], image["pullPolicy"]),
        (metadata["annotations"] | CHANGED["podAnnotations"], metadata["annotations"]),
        (metadata["labels"] | CHANGED["podLabels"], metadata["labels"]),
        *((pod[name], wanted) for name, wanted in _POD.items()),
    ]
    if wrong := [f"{said} is not {wanted}" for said, wanted in pairs if said != wanted]:
        raise ChartError(f"upgrade: {', '.join(wrong)}")


def _admit(helm: Helm, plane: ControlPlane) -> None:
    """As on GKE: pods of a critical class need the quota, and pods of another class need none."""
    values = CASES[1].chart_values()
    helm("install", RELEASE, str(CHART), values=values)
    _wait("two pods are admitted", lambda: len(_pods(plane)) == 2)
    helm("upgrade", RELEASE, str(CHART), values={**values, "quota": {"enabled": False}})
    plane.kubectl("-n", NAMESPACE, "delete", "pods", "--all", "--grace-period=0", "--force")
    _wait(
        "pods are refused",
        lambda: "insufficient quota" in plane.kubectl("-n", NAMESPACE, "get", "replicasets", "-o", "yaml"),
    )
    if _pods(plane):
        raise ChartError("pods of a critical class were admitted without a quota")
    own = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "mine"},
        "value": 1000000,
    }
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(own))
    helm("upgrade", RELEASE, str(CHART), values={**values, "quota": {"enabled": False}, "priorityClassName": "mine"})
    _wait("pods of another class are admitted", lambda: bool(_pods(plane)))
    helm("uninstall", RELEASE)


def _pods(plane: ControlPlane) -> list[Any]:
    found: list[Any] = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return found


def _there(plane: ControlPlane, manifests: Iterable[Manifest]) -> dict[tuple[str, str], Any]:
    """Return those of the objects that are on the API server, as they are there."""
    named = [
        {part: each[part] for part in ("apiVersion", "kind", "metadata")}
        for each in {key(each): each for each in manifests}.values()
    ]
    text = plane.kubectl("get", "--ignore-not-found", "-o", "json", "-f", "-", input=yaml.safe_dump_all(named))
    return comparable(json.loads(text)["items"]) if text.strip() else {}


def _are_gone(plane: ControlPlane, manifests: Iterable[Manifest]) -> bool:
    """Whether nothing of a release is left; what Helm keeps is deleted as a user would do it."""
    left = _there(plane, manifests)
    if KEPT in left:
        plane.kubectl("delete", "--ignore-not-found", "crd", KEPT[1])
    if ("ClusterRole", AGGREGATED) in left:
        # The controller that fills in its rules applies them once more when a role that it sums up goes, and so may
        # create it anew.
        plane.kubectl("delete", "--ignore-not-found", "clusterrole", AGGREGATED)
    return not left


def _compare(what: str, found: dict[tuple[str, str], Any], wanted: dict[tuple[str, str], Any]) -> None:
    if missing := wanted.keys() ^ found.keys():
        raise ChartError(f"{what}: only in one of both: {sorted(missing)}")
    for name, each in wanted.items():
        if found[name] != each:
            raise ChartError(f"{what}: {name} differs:\n{yaml.safe_dump(found[name])}\n{yaml.safe_dump(each)}")


def _wait(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise ChartError(f"not so after {SECONDS:.0f} s: {what}")
        time.sleep(0.3)
