"""Objects that a command is about: `pod/x`, `pod x`, `ns/team`, `NAMESPACE/x` or `x`."""

import argparse
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cli.arguments import UsageError, namespace_of
from scheduler.cli.sources.object_names import complete_objects
from scheduler.simulation import owned_pods

if TYPE_CHECKING:
    from scheduler.kube.access import ClusterAccess


class TargetKind(StrEnum):
    """Kinds of objects, by the singular names that kubectl takes."""

    POD = "pod"
    POD_GROUP = "podgroup"
    CLAIM = "resourceclaim"
    NODE = "node"
    NAMESPACE = "namespace"
    DEVICE = "device"
    """A device by its node or pool, or by driver and pool, `NODE/NAME`: no kind of the API."""
    DOMAIN = "domain"
    """Nodes with one value of a label, `LABEL=VALUE`: no kind of the API."""
    OWNER = "job"
    """What makes pods, such as a Job or a Deployment; `Target.owner` is its kind."""


_WORDS: Final = {
    TargetKind.POD: ("pods", "po"),
    TargetKind.POD_GROUP: ("podgroups", "gang", "gangs"),
    TargetKind.CLAIM: ("resourceclaims", "claim", "claims"),
    TargetKind.NODE: ("nodes", "no"),
    TargetKind.NAMESPACE: ("namespaces", "ns"),
    TargetKind.DEVICE: (),
    TargetKind.DOMAIN: (),
}
_SHOWN: Final = {TargetKind.POD_GROUP: "gang"}
"""Words for kinds in help and messages, where users say another one than the API: most gangs have no PodGroup."""
_KINDS: Final = {word: kind for kind, words in _WORDS.items() for word in (kind.value, *words)}
_OWNERS: Final = {
    **{word: kind for kind in owned_pods.KINDS for word in (kind.lower(), f"{kind.lower()}s")},
    "cj": "CronJob",
    "deploy": "Deployment",
    "ds": "DaemonSet",
    "lws": "LeaderWorkerSet",
    "rc": "ReplicationController",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
}
"""Words for kinds of objects that make pods."""
_OTHER_KINDS: Final = frozenset(
    (
        *_OWNERS,
        *("deviceclass", "deviceclasses", "resourceslice", "resourceslices", "service", "services", "svc"),
        *("workload", "workloads"),
    )
)
"""Kinds that not each command takes: their names are not read as those of namespaces."""
_CLUSTER_SCOPED: Final = frozenset(
    {TargetKind.DEVICE, TargetKind.DOMAIN, TargetKind.NAMESPACE, TargetKind.NODE},
)


class Target(NamedTuple):
    """An object; `namespace` is "" for a node or a namespace. `owner` is the kind of an object that makes pods."""

    kind: TargetKind
    namespace: str
    name: str
    owner: str = ""

    def __str__(self) -> str:
        """Write it as messages name objects: `pod ns/name`, `gang ns/name`, `Job ns/name`."""
        word = self.owner or _SHOWN.get(self.kind, self.kind.value)
        return f"{word} {self.namespace}/{self.name}" if self.namespace else f"{word} {self.name}"


def add_target(parser: argparse.ArgumentParser, kinds: Sequence[TargetKind], *, is_optional: bool = False) -> None:
    """Add the object as one or two words; the first of `kinds` is meant where none is written."""
    written = " or ".join(f"{_SHOWN.get(kind, kind.value)}/NAME" for kind in kinds)
    action = parser.add_argument(
        "target",
        nargs="*" if is_optional else "+",
        metavar="OBJECT",
        help=f"{written}; NAME and NAMESPACE/NAME mean a {kinds[0]}",
    )
    complete_objects(action, [each.value for each in kinds if each is not TargetKind.OWNER])


def kind_of(word: str) -> str:
    """Return the kind that a word such as `po` or `gang` names, "" where it names none."""
    found = _KINDS.get(word.lower())
    return found.value if found is not None else ""


def target_of(
    words: Sequence[str], options: argparse.Namespace, kinds: Sequence[TargetKind], access: "ClusterAccess | None"
) -> Target:
    """
    Return the object that words name; `-n` of `options`, else the context, gives the namespace that they leave out.

    Raise `UsageError`, and `ConfigurationError` where the kubeconfig is needed and cannot be read.
    """
    kind, rest = _split(words, kinds)
    if kind is TargetKind.DOMAIN:
        label, _, value = rest.partition("=")
        if not label or not value:
            raise UsageError(f"{' '.join(words)!r} names no domain: write {_forms(kind)}")
        return Target(kind, "", rest)
    if kind is TargetKind.DEVICE and all(rest.rpartition("/")[::2]):
        return Target(kind, "", rest)
    namespace, _, name = rest.rpartition("/")
    if not name or "/" in namespace or (namespace and kind in _CLUSTER_SCOPED):
        is_device = kind is TargetKind.NODE and namespace
        is_known = TargetKind.DEVICE in kinds
        of_node = f"device/{rest} is a device" if is_known else f"node/{namespace} has the devices of that node"
        meant = f"; {of_node}" if is_device else ""
        raise UsageError(f"{' '.join(words)!r} names no {_SHOWN.get(kind, kind.value)}: write {_forms(kind)}{meant}")
    if kind in _CLUSTER_SCOPED:
        return Target(kind, "", name)
    if namespace and options.namespace and namespace != options.namespace:
        raise UsageError(f"{rest!r} is in namespace {namespace}, but -n is {options.namespace}: give one of them")
    owner = _OWNERS[_first(words)] if kind is TargetKind.OWNER else ""
    return Target(kind, namespace or namespace_of(options, access), name, owner)


def _split(words: Sequence[str], kinds: Sequence[TargetKind]) -> tuple[TargetKind, str]:
    """Split the words into kind and the rest."""
    text = "/".join(words)
    first, slash, rest = text.partition("/")
    is_kind = first.lower() in _KINDS and (slash or len(words) == 1)
    if TargetKind.OWNER in kinds and slash and len(words) <= 2 and _first(words) in _OWNERS:  # noqa: PLR2004 - as below
        return TargetKind.OWNER, rest
    if len(words) > 2 or (len(words) == 2 and not is_kind):  # noqa: PLR2004 - kind and name
        raise UsageError(f"{' '.join(words)!r}: write one object, as {' or '.join(map(_forms, kinds))}")
    if not is_kind and slash and first.lower() in _OTHER_KINDS:
        forms = " or ".join(map(_forms, kinds))
        of_pods = _of_its_pods(kinds) if first.lower() in _OWNERS else ""
        raise UsageError(f"{text!r}: this command takes {forms}, not a {first}{of_pods}")
    if not is_kind:
        return kinds[0], text
    kind = _KINDS[first.lower()]
    if kind not in kinds:
        chosen = f"; -n {rest} chooses a namespace" if kind is TargetKind.NAMESPACE and rest else ""
        chosen = _of_its_pods(kinds) if kind is TargetKind.POD_GROUP else chosen
        if kind is TargetKind.DEVICE:
            chosen = f"; `dovetail repair plan --for {text}` says which pods would leave it, and for where"
        raise UsageError(f"{text!r} is a {kind}: this command takes {' or '.join(map(_forms, kinds))}{chosen}")
    return kind, rest


def _of_its_pods(kinds: Sequence[TargetKind]) -> str:
    return "; write pod/NAME for each of its pods" if TargetKind.POD in kinds else ""


def _first(words: Sequence[str]) -> str:
    return "/".join(words).partition("/")[0].lower()


def _forms(kind: TargetKind) -> str:
    if kind is TargetKind.OWNER:
        return "job/NAME, deployment/NAME and the like"
    if kind is TargetKind.DOMAIN:
        return "domain LABEL=VALUE"
    if kind is TargetKind.DEVICE:
        return "device NODE/NAME or device DRIVER/POOL/NAME"
    word = _SHOWN.get(kind, kind.value)
    return f"{word}/NAME" if kind in _CLUSTER_SCOPED else f"{word}/NAME or {word} NAMESPACE/NAME"
