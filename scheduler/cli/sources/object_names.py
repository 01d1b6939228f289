"""
What the Tab key completes in place of a name: pods, gangs, nodes, claims, namespaces, classes and contexts.

Nothing is said where names cannot be listed: a completion has no place for an error.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

_PATHS: Final = {
    "pod": "/api/v1/namespaces/{namespace}/pods",
    "resourceclaim": "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
    "node": "/api/v1/nodes",
    "namespace": "/api/v1/namespaces",
    "deviceclass": "/apis/resource.k8s.io/v1/deviceclasses",
    "devicequota": "/apis/dovetail.dev/v1alpha1/devicequotas",
    "podgroup": "/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups",
}
_GANG_LABELS: Final = ("dovetail.dev/gang", "scheduling.x-k8s.io/pod-group")
"""Labels of pods whose value is the name of their gang."""
_MOST_NAMES: Final = 500
"""Names that a shell gets: more are of no use on a terminal."""
_IN_NAMESPACE: Final = frozenset({"pod", "resourceclaim", "podgroup"})

Completer = Callable[..., Iterable[str]]


def complete_names(action: argparse.Action, kind: str) -> None:
    """Have the Tab key complete the value of an option by the names of a kind."""
    action.completer = _of(kind)  # type: ignore[attr-defined]  # argcomplete reads it


def complete_objects(action: argparse.Action, kinds: Sequence[str]) -> None:
    """Have the Tab key complete an object, `kind/name` or `kind name`; the first of the kinds needs no word."""
    action.completer = _objects(kinds)  # type: ignore[attr-defined]  # as above


def complete_contexts(action: argparse.Action) -> None:
    """Have the Tab key complete contexts of the kubeconfig."""

    def names(*, prefix: str, parsed_args: argparse.Namespace, **_: Any) -> Iterable[str]:
        from scheduler.kube import quick_names  # noqa: PLC0415 - only completion needs it

        try:
            found = quick_names.contexts(getattr(parsed_args, "kubeconfig", None))
        except quick_names.NamesError:
            return ()
        return [name for name in found if name.startswith(prefix)]

    action.completer = names  # type: ignore[attr-defined]  # as above


def _of(kind: str) -> Completer:
    def names(*, prefix: str, parsed_args: argparse.Namespace, **_: Any) -> Iterable[str]:
        return [name for name in _listed(kind, "", parsed_args) if name.startswith(prefix)][:_MOST_NAMES]

    return names


def _objects(kinds: Sequence[str]) -> Completer:
    def names(*, prefix: str, parsed_args: argparse.Namespace, **_: Any) -> Iterable[str]:
        from scheduler.cli.sources.targets import kind_of  # noqa: PLC0415 - it imports this module

        typed = getattr(parsed_args, "target", None) or []
        before = kind_of(typed[0]) if typed else ""
        if before in kinds:  # `pod trai`, `pod ns/trai`
            return _matching(before, "", prefix, parsed_args)
        word, slash, rest = prefix.partition("/")
        kind = kind_of(word) if slash else ""
        if kind in kinds:  # `pod/trai`, `gang/ns/trai`
            return _matching(kind, f"{word}/", rest, parsed_args)
        words = [f"{each}/" for each in kinds if each.startswith(prefix)]
        return [*words, *_matching(kinds[0], "", prefix, parsed_args)]

    return names


def _matching(kind: str, before: str, typed: str, parsed_args: argparse.Namespace) -> list[str]:
    """Return what may stand for a name that is typed in part: `name` or `namespace/name`."""
    namespace, slash, name = typed.rpartition("/")
    if slash and kind not in _IN_NAMESPACE:
        return []
    found = _listed(kind, namespace, parsed_args)
    return [f"{before}{namespace}{slash}{each}" for each in found if each.startswith(name)][:_MOST_NAMES]


def _listed(kind: str, namespace: str, parsed_args: argparse.Namespace) -> list[str]:
    """
    List the names of a kind in a namespace ("": that of -n, else of the context); none where that cannot be.

    Gangs are PodGroups, where the server has them, and what labels of pods name.
    """
    from scheduler.kube import quick_names  # noqa: PLC0415 - only completion needs it

    try:
        context = getattr(parsed_args, "context", "") or ""
        path: Path | None = getattr(parsed_args, "kubeconfig", None)
        access = quick_names.find(path, context)
        chosen = namespace or getattr(parsed_args, "namespace", "") or access.namespace
        asked = [quick_names.NamesQuestion(_PATHS[kind].format(namespace=chosen))]
        if kind == "podgroup":
            pods = _PATHS["pod"].format(namespace=chosen)
            asked += [quick_names.NamesQuestion(pods, label) for label in _GANG_LABELS]
        return sorted(set().union(*filter(None, quick_names.names(access, *asked))))
    except quick_names.NamesError:
        return []
