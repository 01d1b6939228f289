"""The largest objects that the API server admits: every kind, every list that decoding reads, every size."""

import time
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from e2e.hostile import steps
from e2e.hostile.extremes.catalogue import Extreme, all_served, as_served, extremes
from e2e.hostile.extremes.refused import Refusal, refusals
from e2e.hostile.extremes.served import event, served, written
from e2e.hostile.extremes.sizes import LARGEST_STORED, stored_bytes
from e2e.hostile.extremes.wide import ENTRIES, filled, lists_on, widest
from scheduler.change import Kind
from scheduler.kube.decode import (
    claims,
    device_holds,
    device_quotas,
    disruption,
    gangs,
    nodes,
    pod_wires,
    slices,
    storage,
)
from scheduler.kube.decode.pieces import PIECE_BYTES, Pieces
from scheduler.kube.watching.list_watch import ListWatch, Received


def decoded(module: ModuleType, decoder: str) -> Any:
    """What a decoder of a module makes."""
    return getattr(module, decoder).type


WIRES: Mapping[Kind, tuple[tuple[str, Any], ...]] = {
    Kind.NODES: (("", nodes.NodeWire),),
    Kind.PODS: (("", pod_wires.PodWire),),
    Kind.NAMESPACES: (("", nodes.NamespaceWire),),
    Kind.SLICES: (("", slices.SliceWire),),
    Kind.CLASSES: (("", slices.ClassWire),),
    Kind.CLAIMS: (("", claims.ClaimWire), ("spec", decoded(claims, "_spec")), ("status", decoded(claims, "_status"))),
    Kind.TAINT_RULES: (("", slices.RuleWire),),
    Kind.VOLUMES: (("", decoded(storage, "_volume")),),
    Kind.VOLUME_CLAIMS: (("", decoded(storage, "_volume_claim")),),
    Kind.STORAGE_CLASSES: (("", decoded(storage, "_storage_class")),),
    Kind.NODE_DRIVERS: (("", decoded(storage, "_csi_node")),),
    Kind.STORAGE_CAPACITIES: (("", decoded(storage, "_capacity")),),
    Kind.STORAGE_DRIVERS: (("", decoded(storage, "_csi_driver")),),
    Kind.ATTACHMENTS: (("", decoded(storage, "_attachment")),),
    Kind.BUDGETS: (("", decoded(disruption, "_budget")),),
    Kind.POD_GROUPS: (("", gangs.PodGroupWire),),
    Kind.COSCHEDULING_GROUPS: (("", gangs.CoschedulingWire),),
    Kind.HOLDS: (("", device_holds.HoldWire),),
    Kind.QUOTAS: (("", device_quotas.DeviceQuotaWire),),
}
"""What is decoded of each kind, with the field that it is decoded from."""
FIELD_BY_FIELD = {"spec.resources[]{}"}
"""Objects that are decoded as maps, to name fields that are not known."""


def lists_of(wire: inspect.Type, path: str = "") -> Iterator[str]:
    """The paths of all lists and maps below a type."""
    match wire:
        case inspect.UnionType():
            for each in wire.types:
                yield from lists_of(each, path)
        case inspect.StructType():
            for field in wire.fields:
                yield from lists_of(field.type, f"{path}.{field.encode_name}".removeprefix("."))
        case inspect.ListType() | inspect.VarTupleType():
            yield f"{path}[]"
            yield from lists_of(wire.item_type, f"{path}[]")
        case inspect.DictType():
            yield f"{path}{{}}"
            yield from lists_of(wire.value_type, f"{path}{{}}")
        case _:
            return


def read_lists(kind: Kind) -> set[str]:
    """The lists and maps that decoding reads."""
    return {path for field, wire in WIRES[kind] for path in lists_of(inspect.type_info(wire), field)}


@pytest.mark.parametrize("kind", Kind)
def test_every_list_that_is_read_can_be_filled(kind: Kind) -> None:
    assert read_lists(kind) - set(ENTRIES[kind]) - FIELD_BY_FIELD == set(), "add an entry for these lists"


def test_the_lists_of_a_type_are_found_at_every_depth() -> None:
    assert "spec.devices[].attributes{}.ints[]" in read_lists(Kind.SLICES)
    assert "status.allocation.devices.results[].tolerations[]" in read_lists(Kind.CLAIMS)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_shapes_of_metadata_and_is_refused_in_some_way(kind: Kind) -> None:
    shapes = {each.shape for each in extremes((kind,))}
    assert {"every list", "managed fields 9,900 deep", "managed fields of many surrogates"} <= shapes
    assert {Refusal.READABLE, Refusal.FIRST, Refusal.LAST} <= set(refusals(kind))


def changed(kind: Kind, text: bytes) -> Received:
    received = Received()
    receive: Any = ListWatch(kind).receive_lines
    list(receive([b'{"type":"ADDED","object":' + text + b"}"], received) or ())
    return received


SMALL = [(kind, refusal) for kind in Kind for refusal in refusals(kind)]


@pytest.mark.parametrize(("kind", "refusal"), SMALL, ids=str)
def test_what_is_refused_is_refused_and_what_is_readable_is_read(kind: Kind, refusal: Refusal) -> None:
    few = Extreme(kind, "labels", lambda: filled(kind, "metadata.labels{}", (3,)))
    given = as_served(few, few.make(), refusal)
    received = changed(kind, given.text)
    assert bool(received.problems) == (refusal is not Refusal.READABLE), received.problems


LISTS = [(kind, path) for kind, entries in ENTRIES.items() for path in entries]


@pytest.mark.parametrize(("kind", "path"), LISTS, ids=str)
def test_each_list_is_filled_to_its_depth(kind: Kind, path: str) -> None:
    counts = [min(3, ENTRIES[kind][each].most) for each in lists_on(path)]
    holders: list[Any] = [filled(kind, path, counts)]
    for part in path.split("."):
        holders = [each[part.rstrip("[]{}")] for each in holders]
        if part.endswith("[]"):
            holders = [item for each in holders for item in each]
        elif part.endswith("{}"):
            holders = [item for each in holders for item in each.values()]
    expected = 1
    for count in counts:
        expected *= count
    assert len(holders) == expected


NO_LONGER_READ = {(Kind.TAINT_RULES, "spec.deviceSelector.selectors[]")}


@pytest.mark.parametrize(("kind", "path"), LISTS, ids=str)
def test_an_object_with_one_entry_in_a_list_is_readable(kind: Kind, path: str) -> None:
    one = Extreme(kind, path, lambda: filled(kind, path, [1] * len(lists_on(path))))
    problems = changed(kind, as_served(one, one.make()).text).problems
    assert bool(problems) == ((kind, path) in NO_LONGER_READ), problems


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (Kind.PODS, "spec.containers[]"),
        (Kind.PODS, "spec.containers[].ports[]"),
        (Kind.NODES, "status.images[]"),
        (Kind.CLAIMS, "metadata.labels{}"),
        (Kind.COSCHEDULING_GROUPS, "metadata.labels{}"),
    ],
)
def test_a_list_without_a_limit_fills_what_etcd_admits(kind: Kind, path: str) -> None:
    size = stored_bytes(kind, served(widest(kind, path)))
    assert 0.93 * LARGEST_STORED < size < LARGEST_STORED


def test_a_list_with_a_limit_keeps_it() -> None:
    claim = widest(Kind.CLAIMS, "spec.devices.requests[].firstAvailable[].selectors[]")
    first = claim["spec"]["devices"]["requests"][0]["firstAvailable"][0]
    assert len(first["selectors"]) == 32


def test_escapes_take_six_times_the_bytes_as_in_go() -> None:
    manifest = served({"metadata": {"name": "a", "annotations": {"a": "<\u2028\x01"}}})
    assert b'"a":"\\u003c\\u2028\\u0001"' in written(manifest)


def test_managed_fields_track_entries_by_their_keys() -> None:
    manifest = filled(Kind.PODS, "spec.containers[].env[]", (1, 2))
    fields = served(manifest)["metadata"]["managedFields"][0]["fieldsV1"]
    (container,) = (each for key, each in fields["f:spec"]["f:containers"].items() if key.startswith("k:"))
    assert [key for key in container["f:env"] if key != "."] == ['k:{"name":"aaaa"}', 'k:{"name":"aaab"}']


def test_a_page_has_large_and_small_objects_of_different_names() -> None:
    given = next(each for each in all_served((Kind.NAMESPACES,)))
    names = [each["metadata"]["name"] for each in msgspec.json.decode(given.page(2, 10))["items"]]
    assert len(set(names)) == 12
    assert names[5:7] == ["large-0", "large-1"]


# the measurement


def test_the_longest_stretch_of_an_iterator_is_one_step_and_not_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((0.0, 1.0, 1.0, 4.0, 4.0, 6.0))
    monkeypatch.setattr(time, "process_time", lambda: next(now))
    assert steps.longest_stretch(of_sizes(PIECE_BYTES, PIECE_BYTES)) == 3000.0


def test_small_pieces_are_one_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((0.0, 5.0))
    monkeypatch.setattr(time, "process_time", lambda: next(now))
    assert steps.longest_stretch(of_sizes(1, 1, 1)) == 5000.0


def of_sizes(*sizes: int) -> Pieces[None]:
    yield from sizes


def test_a_step_is_measured_of_each_part() -> None:
    few = Extreme(Kind.PODS, "labels", lambda: filled(Kind.PODS, "metadata.labels{}", (3,)))
    row = steps.Measurement(as_served(few, few.make())).row()
    assert row.problems == ()
    assert min(row.decode, row.page, row.apply, row.wake, row.feed, row.explain) >= 0


def test_a_refused_object_is_not_explained() -> None:
    few = Extreme(Kind.PODS, "labels", lambda: filled(Kind.PODS, "metadata.labels{}", (3,)))
    row = steps.Measurement(as_served(few, few.make(), Refusal.RULE)).row()
    assert row.decode >= 0
    assert row.explain == steps.NOTHING


def test_rows_are_written_read_and_ordered(tmp_path: Any) -> None:
    common: dict[str, Any] = {
        "kind": Kind.PODS,
        "refusal": Refusal.READABLE,
        "kib": 1,
        "page": 1.0,
        "apply": 0.0,
        "wake": 0.0,
    }
    rows = [steps.Row(**common, shape=str(ms), decode=ms, feed=0.0, explain=99.0) for ms in (3.0, 7.0)]
    steps.write(tmp_path / "rows.json", rows)
    assert [each.shape for each in steps.worst(steps.read(tmp_path / "rows.json"), 2)] == ["7.0", "3.0"]


def test_an_event_is_a_line() -> None:
    assert event(served({"metadata": {"name": "a"}}), "ADDED").startswith(b'{"type":"ADDED","object":{"metadata"')
