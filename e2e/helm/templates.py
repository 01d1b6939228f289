"""
Chart templates from kustomize's objects.

Three things are put into an object: a condition around it or around what a component adds to it, values in place of
some of its fields, and the namespace of the release. `values.yaml` is written by hand; where it replaces a field, it
must have what the manifests have.
"""

import copy
import itertools
import json
import re
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.controlplane.plane import REPOSITORY
from e2e.helm import kustomize
from e2e.helm.kustomize import CONFIG, DEPLOY, Manifest

CHART: Final = DEPLOY / "chart"
NAMESPACE: Final = "dovetail-system"
_HEAD: Final = "{{- /* `make chart-templates` writes this from deploy/%s, where the comments are. */ -}}\n"

PARTS: Final = {
    "preemption": ("components/preemption", "features.preemption"),
    "extended-resources": ("components/extended-resources", "features.extendedResources"),
    "volumes": ("components/volumes", "features.volumes"),
    "pod-groups": ("components/pod-groups", "features.podGroups"),
    "holds": ("components/holds", "features.holds"),
    "device-quotas": ("components/device-quotas", "features.deviceQuotas"),
    "kueue": ("components/kueue", "features.kueue"),
    "held-nodes": ("components/held-nodes", "features.heldNodes"),
    "secure-metrics": ("components/secure-metrics", "secureMetrics.enabled"),
    "repair": ("components/repair", "repair.enabled"),
    "api": ("api", "api.enabled"),
    "page": ("page", "page.enabled"),
    "observe": ("observe", "observe.enabled"),
    "opt-in": ("opt-in", "optIn.policy"),
    "opt-in-warning": ("opt-in-warning", "optIn.warning"),
    "admission-features": ("admission/features", "admission.features.enabled"),
    "admission-limits": ("admission/limits", "admission.limits.enabled"),
    "admission-allocations": ("admission/allocations", "admission.allocations.enabled"),
    "admission-holds": ("admission/holds", "admission.holds.enabled"),
}
"""Components: the template of each, its folder, and the value that switches it on."""

SCHEDULER: Final = "scheduler.enabled"
"""The value that switches `deploy/base` and its components on; `checks.yaml` says which parts need them."""

MONITORING_FOLDERS: Final = ("monitoring", "monitoring/prometheus")
MONITORING: Final = {
    "PodMonitor": "monitoring.podMonitor",
    "PrometheusRule": "monitoring.prometheusRule",
    "dovetail-dashboards": "monitoring.dashboards",
    "dovetail-prometheus": "monitoring.prometheus.enabled",
    "dovetail-scrape": "monitoring.prometheus.enabled",
}
"""The value that switches an object of `deploy/monitoring` on, by its kind or its name."""

OPTIONAL: Final = {
    "ResourceQuota": "quota.enabled",
    "NetworkPolicy": "networkPolicy",
    "PodDisruptionBudget": "podDisruptionBudget",
    "FlowSchema": "flowSchemas",
    "dovetail-viewer": "userRoles",
    "dovetail-view": "userRoles",
    "dovetail-defrag": "userRoles",
    "dovetail-operator": "userRoles",
}
"""The same of `deploy/base`."""

Steps = tuple[str | int, ...]

_POD: Final[Steps] = ("spec", "template", "spec")
_CONTAINER: Final[Steps] = (*_POD, "containers", 0)
VALUES: Final[dict[tuple[str, str], dict[Steps, str]]] = {
    ("Deployment", "dovetail"): {
        ("spec", "replicas"): "replicas",
        (*_POD, "priorityClassName"): "priorityClassName",
        (*_POD, "nodeSelector"): "nodeSelector",
        (*_POD, "topologySpreadConstraints"): "topologySpreadConstraints",
        (*_CONTAINER, "resources"): "resources",
    },
    ("Deployment", "dovetail-page"): {
        (*_POD, "nodeSelector"): "nodeSelector",
        (*_CONTAINER, "resources"): "page.resources",
    },
    ("Deployment", "dovetail-observe"): {
        (*_POD, "nodeSelector"): "nodeSelector",
        (*_CONTAINER, "resources"): "observe.resources",
        (*_CONTAINER, "args"): "observe.args",
        (*_POD, "volumes"): "observe.volumes",
    },
    ("ResourceQuota", "dovetail-critical-pods"): {
        ("spec", "hard", "pods"): "quota.pods",
        ("spec", "scopeSelector", "matchExpressions", 0, "values", 0): "priorityClassName",
    },
    ("RoleBinding", "dovetail-scrape"): {
        ("subjects", 0, "namespace"): "monitoring.prometheus.namespace",
        ("subjects", 0, "name"): "monitoring.prometheus.serviceAccountName",
    },
    ("ConfigMap", "dovetail-prometheus"): {("metadata", "namespace"): "monitoring.prometheus.namespace"},
}
"""The fields that values replace, by object and path."""
_SECRETS: Final = {
    "api-tls": "api.secretName",
    "metrics-tls": "secureMetrics.secretName",
    "page-tls": "page.secretName",
}
"""The value that names the Secret of a volume."""
_ADDED: Final[dict[Steps, tuple[str, ...]]] = {
    _POD: ("imagePullSecrets", "tolerations", "affinity"),
    ("spec", "template", "metadata", "annotations"): ("podAnnotations",),
    ("spec", "template", "metadata", "labels"): ("podLabels",),
}
"""Values that add to the Deployment where they are not empty: a field of that name, or entries of a mapping."""


def texts() -> dict[Path, str]:
    """Return what each generated file of the chart holds. Raises BuildError."""
    base = kustomize.rendered("base")
    written = {"base": _text("base", _of_scheduler([_based(each) for each in base if each["kind"] != "Namespace"]))}
    for name, (folder, value) in PARTS.items():
        new = [each for each in kustomize.rendered("base", folder) if _is_new(each, base)]
        documents = [_conditional(_of_part(each, value), value) for each in new]
        written[name] = _text(folder, _of_scheduler(documents) if folder.startswith("components/") else documents)
    objects = {kustomize.key(each): each for name in MONITORING_FOLDERS for each in kustomize.rendered(name)}
    switched = [_conditional(_valued(each), _value(MONITORING, each)) for each in objects.values()]
    written["monitoring"] = _text("monitoring", switched)
    made = {CHART / "templates" / f"{name}.yaml": text for name, text in written.items()}
    return {**made, CHART / "values.schema.json": _schema()}


def values() -> dict[str, Any]:
    """Read the values of the chart."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return found


def _is_new(manifest: Manifest, base: tuple[Manifest, ...]) -> bool:
    return kustomize.key(manifest) not in {kustomize.key(each) for each in base}


def _value(switches: dict[str, str], manifest: Manifest) -> str:
    """The value that switches an object on, empty for one that is always there."""
    kind, name = kustomize.key(manifest)
    return switches.get(name) or switches.get(kind, "")


def _based(manifest: Manifest) -> list[Any]:
    kind, name = kustomize.key(manifest)
    made = _valued(manifest)
    if name == CONFIG:
        made["data"] = {"config.yaml": _expression('include "dovetail.config" . | toJson')}
    elif kind == "Deployment":
        _complete(made, manifest)
    elif kind == "Role":
        made["rules"][1]["resourceNames"] = [_expression('include "dovetail.leaseName" .')]
    return _conditional(made, _value(OPTIONAL, manifest))


def _valued(manifest: Manifest) -> Manifest:
    """Put values in place of fields. Raises ValueError where values.yaml has something else than the manifests."""
    (kind, name), made = kustomize.key(manifest), copy.deepcopy(manifest)
    for path, value in VALUES.get((kind, name), {}).items():
        default, said = _at(values(), tuple(value.split("."))), _at(manifest, path)
        if default != said:
            raise ValueError(f"values.yaml has {value}: {default!r}, and deploy has {said!r}: write the same")
        _at(made, path[:-1])[path[-1]] = _expression(f"toJson .Values.{value}")
    if name in {"dovetail-dashboards", "dovetail-prometheus"}:
        made["data"] = {file: _file(file) for file in manifest["data"]}
    if kind in {"PodMonitor", "PrometheusRule"}:
        made["metadata"].update(_block("with .Values.monitoring.labels", {"labels": _expression("toJson .")}))
    if kind == "PodMonitor":
        made["spec"]["podMetricsEndpoints"][0].update(_entries("monitoring.endpoint"))
    return made


def _file(name: str) -> str:
    """The text of a file of `deploy/monitoring`, to which the chart has a symbolic link."""
    (path,) = (DEPLOY / "monitoring").rglob(name)
    got = f'.Files.Get "{path.relative_to(DEPLOY)}"'
    return _expression(f'{got} | replace "dovetail-system" .Release.Namespace | toJson')


def _complete(made: Manifest, manifest: Manifest) -> None:
    """Add to the Deployment what components and values add to it."""
    for folder, value in PARTS.values():
        changed = kustomize.rendered("base", folder)
        (deployment,) = [each for each in changed if kustomize.key(each) == kustomize.key(manifest)]
        _add(made, manifest, deployment, value)
    for path, names in _ADDED.items():
        target = _at(made, path)
        for name in names:
            if path == _POD:
                target.update(_block(f"with .Values.{name}", {name: _expression("toJson .")}))
            else:
                target.update(_entries(name))
    _run_the_release(made)


def _run_the_release(made: Manifest) -> None:
    """Let a Deployment run the image of the chart, with its configuration and its Secrets."""
    pod, container = _at(made, _POD), _at(made, _CONTAINER)
    container["image"] = _expression('include "dovetail.image" .')
    container.update(_block("with .Values.image.pullPolicy", {"imagePullPolicy": _expression("toJson .")}))
    for volume in (each for each in pod["volumes"] if isinstance(each, dict)):
        if volume["name"] == "config":
            annotations = made["spec"]["template"]["metadata"].setdefault("annotations", {})
            annotations["checksum/config"] = _expression('include "dovetail.config" . | sha256sum')
        elif "secret" in volume:
            volume["secret"]["secretName"] = _expression(f"toJson .Values.{_SECRETS[volume['name']]}")


def _add(made: Any, base: Any, changed: Any, value: str) -> None:
    """Put what `changed` has and `base` has not into `made`, under the condition of a value."""
    if isinstance(base, dict):
        for key in changed:
            if key not in base:
                made.update(_block(f"if .Values.{value}", {key: changed[key]}))
            elif changed[key] != base[key]:
                _add(made[key], base[key], changed[key], value)
    else:
        for inner, old, new in zip(made, base, changed, strict=False):
            if old != new:
                _add(inner, old, new, value)
        if added := changed[len(base) :]:
            made += [f"{_ACTION}if .Values.{value}", *added, f"{_ACTION}end"]


def _of_part(manifest: Manifest, value: str) -> Manifest:
    """Let values replace what they can of an object of a part: entries of a policy's table, fields of a Deployment."""
    if manifest["kind"] == "Deployment":
        made = _valued(manifest)
        pull_secrets = _block("with .Values.imagePullSecrets", {"imagePullSecrets": _expression("toJson .")})
        _at(made, _POD).update(pull_secrets)
        _run_the_release(made)
        return made
    if manifest["kind"] != "ConfigMap":
        return manifest
    where = f".Values.{value.removesuffix('.enabled')}.params"
    manifest = copy.deepcopy(manifest)
    for name, said in manifest["data"].items():
        default = json.dumps(said)
        if NAMESPACE in said:
            default = f"(printf {json.dumps(said.replace(NAMESPACE, '%s'))} .Release.Namespace)"
        manifest["data"][name] = _expression(f'dig "{name}" {default} {where} | quote')
    return manifest


def _at(tree: Any, path: Steps) -> Any:
    for step in path:
        tree = tree[step]
    return tree


# Actions are not YAML. They stand in the tree as words that YAML leaves alone, and are written out in its text.

_ACTION: Final = "HELM-ACTION "
_WORD: Final = "HELM-EXPRESSION-"
_expressions: dict[str, str] = {}
_numbers: Final = itertools.count()


def _expression(text: str) -> str:
    """Return the word that stands for an expression."""
    word = f"{_WORD}{len(_expressions)}-"
    _expressions[word] = text
    return word


def _block(action: str, entries: dict[str, Any]) -> dict[str, Any]:
    """Return entries of a mapping between an action and its end."""
    return {f"{_ACTION}{action} #{next(_numbers)}": None, **entries, f"{_ACTION}end #{next(_numbers)}": None}


def _entries(value: str) -> dict[str, Any]:
    """Return the entries of a value that is a mapping."""
    entry = {_expression("toJson $key"): _expression("toJson $value")}
    return _block(f"range $key, $value := .Values.{value}", entry)


def _of_scheduler(documents: list[list[Any]]) -> list[list[Any]]:
    return [[f"{_ACTION}if .Values.{SCHEDULER}"], *documents, [f"{_ACTION}end"]]


def _conditional(manifest: Manifest, value: str) -> list[Any]:
    return [manifest] if not value else [f"{_ACTION}if .Values.{value}", manifest, f"{_ACTION}end"]


def _text(folder: str, documents: list[list[Any]]) -> str:
    return _HEAD % folder + "".join(_written_out(each) for document in documents for each in document)


def _written_out(document: Any) -> str:
    if isinstance(document, str):
        return f"{{{{- {document.removeprefix(_ACTION)} }}}}\n"
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)
    text = text.replace("{{", '{{ "{{" }}').replace(NAMESPACE, "{{ .Release.Namespace }}")
    text = re.sub(rf"^ *(?:- )?'?{_ACTION}(.*?)(?: #\d+)?'?(?:: null)?$", r"{{- \1 }}", text, flags=re.MULTILINE)
    return "---\n" + re.sub(rf"{_WORD}\d+-", lambda word: f"{{{{ {_expressions[word[0]]} }}}}", text)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


# values.schema.json


FREE: Final = {
    "affinity",
    "certificates.issuerRef",
    "admission.features.params",
    "admission.limits.params",
    "admission.allocations.params",
    "admission.holds.params",
    "monitoring.endpoint",
    "monitoring.labels",
    "nodeSelector",
    "observe.resources",
    "page.resources",
    "podAnnotations",
    "podLabels",
    "resources",
}
"""Mappings whose keys the chart does not know."""


def _schema() -> str:
    """Return the schema: the shape of values.yaml, and Dovetail's own schema for its configuration."""
    config = json.loads((REPOSITORY / "config" / "schema.json").read_text(encoding="utf-8"))
    made = {"$schema": config["$schema"], **_shape(values(), ""), "$defs": _without_words(config["$defs"])}
    made["properties"]["config"] = {"$ref": config["$ref"]}
    made["properties"]["global"] = {"type": "object"}
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {_lines(key, each)}" for key, each in made.items()) + "\n}\n"


def _lines(key: str, value: Any) -> str:
    """Write a part of the schema: properties and definitions have a line each, so that a change is easy to see."""
    if key not in {"properties", "$defs"}:
        return json.dumps(value)
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in value.items()) + "\n}"


def _shape(value: Any, path: str) -> dict[str, Any]:
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer", "minimum": 0}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array"}
        case _ if path in FREE:
            return {"type": "object"}
    inner = {key: _shape(each, f"{path}.{key}".lstrip(".")) for key, each in value.items()}
    return {"type": "object", "additionalProperties": False, "properties": inner}


def _without_words(tree: Any) -> Any:
    """Leave out what does not decide whether a configuration is right."""
    match tree:
        case list():
            return [_without_words(each) for each in tree]
        case dict():
            return {
                key: {name: _without_words(each) for name, each in inner.items()}
                if key == "properties"
                else _without_words(inner)
                for key, inner in tree.items()
                if key not in {"description", "title", "default"}
            }
    return tree
