"""The same installations for kustomize and for Helm: overlays of `deploy`, and the chart's values that make them."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from e2e.helm import kustomize
from e2e.helm.kustomize import CONFIG, Manifest
from scheduler.settings import parse

IMAGE: Final = "dovetail:latest"
"""What an image without a tag means."""

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """Folders of `deploy`, the first with Dovetail, and the values that switch the same on."""

    name: str
    folders: tuple[str, ...]
    values: Values = field(default_factory=dict)

    def objects(self) -> list[Manifest]:
        """Return kustomize's objects without the namespace, which Helm does not own. Raises BuildError."""
        found = {kustomize.key(each): each for folder in self.folders for each in kustomize.rendered(folder)}
        return [each for (kind, _), each in found.items() if kind != "Namespace"]

    def chart_values(self) -> Values:
        """Return the values, with the configuration of the overlay where it has one; the chart asks which devices."""
        made = dict(self.values)
        for each in self.objects():
            if each["metadata"]["name"] == CONFIG:
                made["config"] = yaml.safe_load(each["data"]["config.yaml"])
                made["config"].setdefault("devices", {}).setdefault("owned", {})
        return made


def _admission(name: str, **params: str) -> Values:
    return {name: {"enabled": True, "params": params}}


CASES: Final = (
    Case("default", ("overlays/default",), {"image": {"repository": "dovetail", "tag": "latest"}}),
    Case("example", ("overlays/example",)),
    Case("api", ("overlays/api",), {"api": {"enabled": True}}),
    Case("kueue", ("overlays/kueue",), {"features": {"kueue": True}}),
    Case("held-nodes", ("overlays/held-nodes",), {"features": {"heldNodes": True}}),
    Case("page", ("overlays/page",), {"page": {"enabled": True}}),
    Case("page-api", ("overlays/page-api",), {"api": {"enabled": True}, "page": {"enabled": True}}),
    Case("observe", ("overlays/observe",), {"scheduler": {"enabled": False}, "observe": {"enabled": True}}),
    Case("observe-beside", ("overlays/observe", "overlays/example"), {"observe": {"enabled": True}}),
    Case("secure-metrics", ("overlays/secure-metrics",), {"secureMetrics": {"enabled": True}}),
    Case("repair", ("overlays/repair",), {"repair": {"enabled": True}}),
    Case("opt-in", ("overlays/opt-in",), {"optIn": {"policy": True}}),
    Case("opt-in-warning", ("overlays/opt-in-warning",), {"optIn": {"warning": True}}),
    Case(
        "fenced",
        ("overlays/fenced",),
        {
            "admission": {
                **_admission("features"),
                **_admission("limits"),
                **_admission("allocations", drivers="gpu.nvidia.com", nodes="dovetail-*"),
                **_admission("holds"),
            }
        },
    ),
    Case(
        "monitoring",
        ("overlays/example", "monitoring"),
        {"monitoring": {"podMonitor": True, "prometheusRule": True, "dashboards": True}},
    ),
    Case(
        "prometheus",
        ("overlays/example", "monitoring/prometheus"),
        {"monitoring": {"dashboards": True, "prometheus": {"enabled": True}}},
    ),
)


def comparable(manifests: list[Manifest]) -> dict[tuple[str, str], Any]:
    """Return objects by kind and name, without what differs between kustomize and Helm on purpose, or by the server."""
    made = [_comparable(json.loads(json.dumps(each))) for each in manifests]
    return {kustomize.key(each): each for each in made}


def _comparable(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    manifest["metadata"] = {
        key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata
    }
    manifest.pop("status", None)
    for place in ("labels", "annotations"):
        own = {key: value for key, value in metadata.get(place, {}).items() if not key.startswith(_NOT_OURS)}
        manifest["metadata"].pop(place, None)
        manifest["metadata"] |= {place: own} if own else {}
    if metadata["name"] == CONFIG:
        # Helm adds the defaults of values.yaml to it: what counts is what Dovetail reads.
        manifest["data"] = repr(parse(manifest["data"]["config.yaml"], CONFIG))
    if manifest["kind"] == "Deployment":
        _compare_pods(manifest["spec"]["template"])
    for address in ("clusterIP", "clusterIPs"):
        manifest.get("spec", {}).pop(address, None)  # the server chooses them
    if "aggregationRule" in manifest:
        manifest.pop("rules", None)  # the controller manager writes them
    return manifest


_NOT_OURS: Final = (
    "app.kubernetes.io/managed-by",
    "meta.helm.sh/",
    "deployment.kubernetes.io/",
    "deprecated.daemonset",
)


def _compare_pods(template: Manifest) -> None:
    annotations = template["metadata"].get("annotations", {})
    annotations.pop("checksum/config", None)
    if not annotations:
        template["metadata"].pop("annotations", None)
    (container,) = template["spec"]["containers"]
    container["image"] = IMAGE if container["image"] == "dovetail" else container["image"]
