r"""
Objects whose texts, nesting or escapes are extreme: what a user's own JSON in an object may be.

The API server passes on opaque parameters, managed fields and the fields of custom resources as they were written:
nested as deep as Go reads (10,000 levels), with escapes of lone surrogates (`\ud800`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from e2e.hostile.extremes.bases import base
from e2e.hostile.extremes.entries import Manifest, name
from e2e.hostile.extremes.pod_entries import container
from e2e.hostile.extremes.refused import with_many_ports, with_many_terms
from e2e.hostile.extremes.served import managed
from e2e.hostile.extremes.sizes import LARGEST_STORED, most_that_fits
from e2e.hostile.extremes.wide import everything, filled, widest
from scheduler.change import Kind

Make = Callable[[], Manifest]
DEEP: Final = (2_400, 9_900)
"""Levels: more than msgspec's recursion bears, and nearly all that Go reads."""
SURROGATE: Final = "\\ud800"
_ROOM: Final = LARGEST_STORED - 16_384
_ANNOTATION_BYTES: Final = 256 * 1024 - 16
_PARAMETER_BYTES: Final = 10_000
_CONFIGS: Final = 32
_ANNOTATIONS: Final[dict[Kind, tuple[str, str]]] = {
    Kind.PODS: ("dovetail.dev/gang-topology", "label:a,"),
    Kind.POD_GROUPS: ("dovetail.dev/gang-topology", "label:a,"),
    Kind.COSCHEDULING_GROUPS: ("dovetail.dev/gang-topology", "label:a,"),
    Kind.NODE_DRIVERS: ("storage.alpha.kubernetes.io/migrated-plugins", "a,"),
    Kind.VOLUME_CLAIMS: ("volume.kubernetes.io/selected-node", "a"),
    Kind.VOLUMES: ("volume.beta.kubernetes.io/storage-class", "a"),
    Kind.STORAGE_CLASSES: ("storageclass.kubernetes.io/is-default-class", "a"),
    Kind.CLAIMS: ("resource.kubernetes.io/extended-resource-claim", "a"),
}
"""An annotation that decoding reads, by kind, and what it is filled with."""


def nested(levels: int, opening: str = "{") -> str:
    """Write lists or objects in each other."""
    if opening == "[":
        return "[" * levels + "]" * levels
    return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)


def of_every_kind(kind: Kind) -> dict[str, Make]:
    """Give the shapes of metadata, which each kind has."""
    key, part = _ANNOTATIONS.get(kind, ("a", "a"))
    shapes = {
        "every list": lambda: everything(kind),
        "annotation of escapes": lambda: _annotated(kind, "a", "<" * _ANNOTATION_BYTES),
        "annotation of control characters": lambda: _annotated(kind, "a", "\x01" * _ANNOTATION_BYTES),
        f"annotation {key.partition('/')[2] or key}": lambda: _annotated(
            kind, key, part * ((_ANNOTATION_BYTES - len(key)) // len(part))
        ),
        "managed fields wide": lambda: _with_managed(kind, _wide_fields()),
        "managed fields of many surrogates": lambda: _with_managed(kind, _surrogate_fields(_ROOM // 22)),
        "managed fields of one surrogate, wide": lambda: _with_managed(
            kind, f'{{"f:{SURROGATE}":{{}},' + _wide_fields()[1:]
        ),
    }
    for levels in DEEP:
        shapes[f"managed fields {levels:,} deep"] = partial(_with_managed, kind, nested(levels))
        shapes[f"managed fields {levels:,} deep, many"] = partial(_with_many_deep, kind, levels)
    return shapes


def _annotated(kind: Kind, key: str, text: str) -> Manifest:
    made = base(kind)
    made["metadata"]["annotations"] = {key: text}
    return made


def _with_managed(kind: Kind, fields: str) -> Manifest:
    made = base(kind)
    made["metadata"]["managedFields"] = [managed(msgspec.Raw(fields))]
    return made


def _with_many_deep(kind: Kind, levels: int) -> Manifest:
    return _with_managed(kind, _many_deep(levels))


def _wide_fields() -> str:
    return "{" + ",".join(f'"f:{name(index)}":{{}}' for index in range(_ROOM // 12)) + "}"


def _surrogate_fields(count: int) -> str:
    return "{" + ",".join(f'"f:{SURROGATE}{name(index)}":{{}}' for index in range(count)) + "}"


def _many_deep(levels: int) -> str:
    one = nested(levels - 1)
    return "{" + ",".join(f'"{name(index)}":{one}' for index in range(_ROOM // (len(one) + 8))) + "}"


def of_pods() -> dict[str, Make]:
    """Give shapes of pods."""
    return {
        "env value of escapes": lambda: _pod_with({"env": [{"name": "a", "value": "<" * _ROOM}]}),
        "env value of control characters": lambda: _pod_with({"env": [{"name": "a", "value": "\x01" * _ROOM}]}),
        "env value": lambda: _pod_with({"env": [{"name": "a", "value": "a" * _ROOM}]}),
        "image of escapes": lambda: _pod_with({"image": "<" * _ROOM}),
        "distinct quantities": lambda: _many_containers(_quantities),
        "distinct quantities of extended resources": lambda: _many_containers(_extended),
        "host ports in many containers": lambda: _many_containers(
            lambda index: {"ports": [{"containerPort": 1 + index % 65_535, "hostPort": 1 + index % 65_535}]}
        ),
        "10,000 host ports": lambda: filled(Kind.PODS, "spec.containers[].ports[]", (1, 10_000)),
        "65 terms, 16,000 env": lambda: with_many_terms(filled(Kind.PODS, "spec.containers[].env[]", (1, 16_000))),
        "65 terms, many containers": lambda: with_many_terms(widest(Kind.PODS, "spec.containers[]")),
        "257 ports, many env": lambda: with_many_ports(widest(Kind.PODS, "spec.containers[].env[]")),
    }


def _pod_with(fields: dict[str, Any]) -> Manifest:
    made = base(Kind.PODS)
    made["spec"]["containers"][0] |= fields
    return made


def _many_containers(fields: Callable[[int], dict[str, Any]]) -> Manifest:
    def make(count: int) -> Manifest:
        made = base(Kind.PODS)
        made["spec"]["containers"] = [container(index) | fields(index) for index in range(count)]
        return made

    return make(most_that_fits(Kind.PODS, make, 10**6))


def _quantities(index: int) -> dict[str, Any]:
    amounts = {"cpu": f"{index + 1}n", "memory": f"{index + 1}.5", "ephemeral-storage": f"1.{index + 1}e3"}
    return {"resources": {"requests": amounts}}


def _extended(index: int) -> dict[str, Any]:
    amounts = {f"a.b/{name(index)}": str(index + 1)}
    return {"resources": {"requests": amounts, "limits": amounts}}


def of_parameters(kind: Kind) -> dict[str, Make]:
    """Give shapes of opaque parameters, of claims and of device classes."""
    shapes = {
        "parameters of surrogates": lambda: _configured(kind, _text(SURROGATE)),
        "parameters of one surrogate": lambda: _configured(kind, f'{{"a":"{SURROGATE}"}}'),
        "parameters of pairs of surrogates": lambda: _configured(kind, _text("\\ud83d\\ude00")),
        "parameters of escapes": lambda: _configured(kind, _text("<")),
        "parameters of escaped quotes": lambda: _configured(kind, _text('\\"')),
        "parameters of small lists": lambda: _configured(
            kind, '{"a":[' + ",".join(["[]"] * (_PARAMETER_BYTES // 3)) + "]}"
        ),
        "parameters of long numbers": lambda: _configured(kind, '{"a":' + "9" * (_PARAMETER_BYTES - 8) + "}"),
    }
    for levels in (1_600, 2_400, 4_900):
        opening = "{" if levels < 1_700 else "["
        shapes[f"parameters {levels:,} deep"] = partial(_configured, kind, f'{{"a":{nested(levels, opening)}}}')
    return shapes


def _text(part: str) -> str:
    return '{"a":"' + part * ((_PARAMETER_BYTES - 8) // len(part)) + '"}'


def _configured(kind: Kind, parameters: str) -> Manifest:
    made = base(kind)
    opaque = {"driver": "a.b", "parameters": msgspec.Raw(parameters)}
    holder = made["spec"]["devices"] if kind is Kind.CLAIMS else made["spec"]
    holder["config"] = [{"opaque": opaque} for _ in range(_CONFIGS)]
    if kind is Kind.CLAIMS:
        allocated = [{"source": "FromClass", "opaque": opaque} for _ in range(_CONFIGS)]
        made["status"] = {"allocation": {"devices": {"config": allocated}}}
    return made


def of_custom_resources() -> dict[str, Make]:
    """Give shapes of the fields of a custom resource without a schema."""
    return {
        **{f"fields {levels:,} deep": partial(_custom, nested(levels)) for levels in DEEP},
        "fields deep, many": lambda: _custom(_many_deep(2_400)),
        "fields of surrogates": lambda: _custom(_surrogate_fields(_ROOM // 22)),
        "fields wide": lambda: _custom(_wide_fields()),
        "fields of a long number": lambda: _custom('{"a":' + "9" * _ROOM + "}"),
    }


def _custom(fields: str) -> Manifest:
    made = base(Kind.COSCHEDULING_GROUPS)
    made["spec"]["more"] = msgspec.Raw(fields)
    return made


def texts(kind: Kind) -> dict[str, Make]:
    """Give the shapes of a kind by name."""
    shapes = of_every_kind(kind)
    if kind is Kind.PODS:
        shapes |= of_pods()
    if kind in (Kind.CLAIMS, Kind.CLASSES):
        shapes |= of_parameters(kind)
    if kind is Kind.COSCHEDULING_GROUPS:
        shapes |= of_custom_resources()
    return shapes
