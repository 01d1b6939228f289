"""Every field of the API, in each supported Kubernetes: it is read, or the table of `corpus_fields` says why not."""

import functools

import msgspec
import pytest

from e2e.controlplane import versions
from scheduler.kube.decode.json_parts import JsonObject
from scheduler.kube.decode.objects import decode
from scheduler.kube.decode.partial_objects import substitute_in_pieces
from scheduler.kube.decode.pieces import at_once
from solver.domain import Pod
from tests.support.corpus import Json, corpus, edited, get, is_below, leaves, path_of, unread
from tests.support.corpus_fields import (
    COMMON,
    KINDS,
    LEASE,
    NOT_DECODED,
    NOT_READ,
    OLD_VERSIONS,
    VIEWS,
    decoded,
)

Key = tuple[str, str]
EACH = [
    (kubernetes, key)
    for kubernetes in versions.SUPPORTED
    for key in corpus(kubernetes).objects
    if key in KINDS or key == LEASE
]


@functools.cache
def unread_paths(kubernetes: str, key: Key) -> frozenset[str]:
    """The fields that count in no view of the object."""
    whole = corpus(kubernetes).objects[key]
    found = unread(whole, views(kubernetes, key), functools.partial(decoded, key))
    return frozenset(path_of(leaf) for at in found for leaf in leaves(get(whole, at), at))


def views(kubernetes: str, key: Key) -> list[Json]:
    whole = corpus(kubernetes).objects[key]
    return [edited(whole, edits) for edits in VIEWS.get(key[1], [{}])]


def covered(path: str, prefixes: set[str] | dict[str, str] | tuple[str, ...]) -> bool:
    return any(is_below(path, prefix) for prefix in prefixes)


@pytest.mark.parametrize("kubernetes", versions.SUPPORTED)
def test_each_object_is_decoded_or_is_known_to_be_none_of_ours(kubernetes: str) -> None:
    undecided = [
        key
        for key in corpus(kubernetes).objects
        if key not in KINDS and key != LEASE and key not in NOT_DECODED and key[0] not in OLD_VERSIONS
    ]
    assert undecided == []


@pytest.mark.parametrize(("kubernetes", "key"), EACH, ids=str)
def test_an_object_with_every_field_is_decoded(kubernetes: str, key: Key) -> None:
    for view in views(kubernetes, key):
        found = decoded(key, view)
        assert not isinstance(found, str), found


@pytest.mark.parametrize(("kubernetes", "key"), EACH, ids=str)
def test_each_field_is_read_or_has_a_reason(kubernetes: str, key: Key) -> None:
    kind = key[1]
    reasons = {**COMMON, **NOT_READ[kind]}
    undecided = sorted(path for path in unread_paths(kubernetes, key) if not covered(path, reasons))
    assert undecided == [], "read these fields, or say in corpus_fields.NOT_READ why not"


@pytest.mark.parametrize("kind", NOT_READ)
def test_each_reason_is_about_a_field_that_is_there_and_is_not_read(kind: str) -> None:
    objects = [(kubernetes, key) for kubernetes, key in EACH if key[1] == kind]
    not_read = {path for each in objects for path in unread_paths(*each)}
    present = {path_of(at) for kubernetes, key in objects for at in leaves(corpus(kubernetes).objects[key])}
    for prefix in NOT_READ[kind]:
        below = {path for path in present if is_below(path, prefix)}
        assert below, f"no version has {prefix}: remove it from corpus_fields.NOT_READ"
        assert below <= not_read, f"{sorted(below - not_read)} are read: remove {prefix} from corpus_fields.NOT_READ"


@pytest.mark.parametrize("kubernetes", versions.SUPPORTED[-2:])
@pytest.mark.parametrize("view", range(len(VIEWS["Pod"])))
def test_a_pod_read_part_by_part_uses_and_forbids_what_the_whole_pod_does(kubernetes: str, view: int) -> None:
    raw = msgspec.json.encode(views(kubernetes, ("v1", "Pod"))[view])
    kind = KINDS["v1", "Pod"]
    whole = decode(kind, raw)
    parts = at_once(substitute_in_pieces(kind, JsonObject(raw), "namespace/name", None, "broken elsewhere"))
    assert isinstance(whole, Pod)
    assert isinstance(parts, Pod)
    for name in (
        *("node_name", "scheduler_name", "is_terminal", "is_deleting", "creation", "started", "labels", "priority"),
        *("preemption_policy", "is_preemptible", "controller", "pod_group", "gang", "gang_note", "claims", "volumes"),
        *("anti_affinity", "scheduling_gates", "requests", "host_ports"),
    ):
        assert getattr(parts, name) == getattr(whole, name), name
