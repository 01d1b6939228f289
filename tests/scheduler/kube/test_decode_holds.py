"""DeviceHolds on the wire: what is written is read again; what cannot be read keeps at least the room that it had."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.change import Kind
from scheduler.kube.decode.device_holds import decode_hold, readable_hold
from scheduler.kube.decode.json_parts import JsonObject
from scheduler.kube.decode.objects import read
from scheduler.kube.hold_writes import HoldTooLargeError, encoded
from solver.domain import ALL_POD_SLOTS, DeviceHold, HeldPlace, HoldOwner, HostPort, LostPlace, PodMatcher
from tests.support import builders as b
from tests.support import hold_builders as h

Json = dict[str, Any]
NAMES = st.sampled_from(("a", "b-1", "c.d"))
MAPS = st.dictionaries(NAMES, NAMES, max_size=2).map(lambda found: tuple(sorted(found.items())))
KUEUE = "kueue.x-k8s.io/workload"
QUANTITIES = st.sampled_from(("1", "500m", "4Gi", "3k", "1500000u"))
WHOLE = st.builds(h.whole, NAMES, NAMES, st.sampled_from(("gpu.example.com", "nic.example.com")))
SHARES = st.builds(
    lambda device, pool, number, consumed: h.share(device, pool, consumed, number=number, driver="gpu.example.com"),
    NAMES,
    NAMES,
    st.integers(1, 3),
    st.dictionaries(NAMES, QUANTITIES, max_size=2),
)
MATCHERS = st.builds(
    PodMatcher,
    namespace=NAMES,
    pod_uid=st.sampled_from(("", "u1")),
    owner_uid=st.sampled_from(("", "u2")),
    labels=MAPS,
    annotations=st.sampled_from(((), ((KUEUE, "w"),))),
)
REQUESTS = st.dictionaries(st.sampled_from(("cpu", "memory", "example.com/x")), st.integers(0, 10**13), max_size=3)
PORTS = st.builds(
    HostPort,
    address=st.sampled_from(("0.0.0.0", "10.0.0.1")),
    protocol=st.sampled_from(("TCP", "UDP")),
    port=st.integers(1, 9),
)
PLACES = st.builds(
    lambda pods, node, requests, ports, devices: HeldPlace(
        index=0,
        pods=pods,
        node=node,
        requests=tuple(sorted(requests.items())),
        host_ports=tuple(ports),
        devices=tuple(devices),
    ),
    MATCHERS,
    NAMES,
    REQUESTS,
    st.lists(PORTS, max_size=2, unique=True),
    st.lists(WHOLE | SHARES, max_size=4, unique=True),
)
OWNERS = st.builds(
    HoldOwner,
    api_version=NAMES,
    resource=NAMES | st.just(""),
    kind=NAMES,
    namespace=NAMES | st.just(""),
    name=NAMES,
    uid=NAMES,
)


@st.composite
def holds(draw: st.DrawFn) -> DeviceHold:
    """Some places share what they ask for, so that groups have several."""
    places = draw(st.lists(PLACES, min_size=1, max_size=4))
    alike = draw(st.lists(st.sampled_from(places), max_size=4))
    found = h.hold("h", *places, *alike, owner=draw(OWNERS), priority=draw(st.integers(-(2**31), 2**31 - 1)))
    return replace(
        found,
        uid="",
        resource_version="",
        deadline=draw(st.integers(1, 2**32)),
        departing=tuple(draw(st.lists(NAMES, unique=True))),
    )


def with_status(hold: DeviceHold, used: list[int], lost: list[int]) -> tuple[DeviceHold, Json]:
    """A hold as it would be stored, and what is stored."""
    wire = json.loads(encoded(hold))
    wire["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    wire["status"] = {"used": used, "lost": [{"place": each, "message": "gone"} for each in lost]}
    stored = replace(hold, uid="u", resource_version="7", used=tuple(sorted(used)))
    return replace(stored, lost=tuple(sorted(LostPlace(each, "gone") for each in lost))), wire


def raw(wire: Json) -> bytes:
    return json.dumps(wire).encode()


@given(hold=holds(), data=st.data())
def test_what_is_written_is_read_again(hold: DeviceHold, data: st.DataObject) -> None:
    numbers = st.lists(st.integers(0, len(hold.places) - 1), unique=True)
    stored, wire = with_status(hold, data.draw(numbers), data.draw(numbers))
    assert decode_hold(raw(wire)) == stored
    assert replace(readable_hold(JsonObject(raw(wire)), "h", "why"), invalid="") == stored


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """All parts of a value by their paths."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [each for key, part in inner for each in paths(part, (*path, key))]


def spoiled(wire: Json, path: tuple[str | int, ...], value: object, *, adds: bool) -> Json:
    """Another value under a path, or an unknown field in the object there."""
    wire = json.loads(json.dumps(wire))
    part: Any = wire
    for key in path[:-1]:
        part = part[key]
    if adds and isinstance(part[path[-1]], dict):
        part[path[-1]]["newer"] = value
    else:
        part[path[-1]] = value
    return wire


@settings(max_examples=300)
@given(hold=holds(), data=st.data(), value=st.sampled_from((None, 5, "?", [], {}, [5], {"x": 1}, True, -1)))
def test_a_group_of_which_a_part_cannot_be_read_keeps_its_room_and_opens_it_to_nobody(
    hold: DeviceHold, data: st.DataObject, value: object
) -> None:
    """The part is one of a group but the list of its places; an unknown field may be in any object."""
    stored, wire = with_status(hold, [], [])
    inside = [each for each in paths(wire["spec"]["groups"], ("spec", "groups")) if is_inside(each)]
    path = data.draw(st.sampled_from(inside))
    broken = spoiled(wire, path, value, adds=data.draw(st.booleans()))
    try:
        decode_hold(raw(broken))
    except ValueError:
        found = readable_hold(JsonObject(raw(broken)), "h", "why")
    else:
        return  # it says something else, which can be read
    assert (found.priority, found.owner, found.deadline, found.departing, found.used, found.lost) == (
        (stored.priority, stored.owner, stored.deadline, stored.departing, (), ())
    )
    assert len(found.places) == len(stored.places)
    for before, now in zip(stored.places, found.places, strict=True):
        is_whole_node = now.requests == ALL_POD_SLOTS
        assert now.requests == before.requests or is_whole_node
        assert now.node in (before.node, "?")
        assert set(before.host_ports) <= set(now.host_ports) or is_whole_node
        assert {each.device for each in before.devices} <= {each.device for each in now.devices} or is_whole_node
        assert now.pods in (before.pods, PodMatcher(namespace=now.pods.namespace))


def is_inside(path: tuple[str | int, ...]) -> bool:
    """Whether a path leads into a group, but is neither its list of places nor a place as a whole."""
    inside = path[3:]
    return bool(inside) and not (inside[0] == "places" and len(inside) <= len(("places", 0)))


WIRE: Json = {
    "metadata": {"name": "h", "uid": "u", "resourceVersion": "7"},
    "spec": {
        "owner": {"apiVersion": "batch/v1", "resource": "jobs", "kind": "Job", "name": "j", "uid": "o"},
        "deadline": "2026-11-29T10:20:00Z",
        "groups": [
            {
                "pods": {"namespace": "ml", "ownerUID": "o"},
                "requests": {"cpu": "4"},
                "hostPorts": [{"port": 80}],
                "places": [
                    {"node": "n1", "devices": [{"driver": "d", "pool": "n1", "names": ["g0", "g1"]}]},
                    {"node": "n2", "devices": [{"driver": "d", "pool": "n2", "names": ["g0"]}]},
                ],
            },
            {"pods": {"namespace": "ml", "labels": {"app": "x"}}, "places": [{"node": "n3"}]},
        ],
    },
    "status": {"used": [0]},
}


def readable(path: tuple[str | int, ...], value: object) -> DeviceHold:
    found, problem = read(Kind.HOLDS, raw(spoiled(WIRE, path, value, adds=False)))
    assert problem is not None
    assert isinstance(found, DeviceHold)
    assert found.invalid
    return found


def test_a_status_that_cannot_be_read_leaves_all_places_open() -> None:
    assert len(readable(("status",), {"used": "?"}).open_places) == 3
    assert len(readable(("status",), {"used": [0], "lost": [{"place": "x"}]}).open_places) == 3


@pytest.mark.parametrize("places", ["?", {"a": 1}, 5])
def test_numbers_count_for_nothing_where_places_before_cannot_be_counted(places: object) -> None:
    """Of three places one is left, and it is not known whether it was the used one."""
    found = readable(("spec", "groups", 0, "places"), places)
    assert [each.node for each in found.open_places] == ["n3"]
    wire = spoiled(WIRE, ("status",), {"lost": [{"place": 0}]}, adds=False)
    assert (
        len(
            readable_hold(
                JsonObject(raw(spoiled(wire, ("spec", "groups", 0, "places"), places, adds=False))), "h", "?"
            ).open_places
        )
        == 1
    )


def test_priority_and_deadline_that_cannot_be_read_end_nothing() -> None:
    assert readable(("spec", "priority"), "high").priority == 2**31 - 1
    assert readable(("spec", "deadline"), "tomorrow").deadline == 0


def test_pods_that_leave_are_known_one_by_one() -> None:
    assert readable(("spec", "departing"), ["u1", 5, "u2"]).departing == ("u1", "u2")


@pytest.mark.parametrize(
    "pods",
    [
        {"namespace": "ml", "ownerUID": "o", "newer": "x"},
        {"namespace": "ml", "annotations": {"example.com/job": "x"}},
        {"namespace": "ml", "labels": {"app": 5}},
        {"ownerUID": "o"},
        "all",
    ],
)
def test_pods_that_are_not_understood_are_none(pods: object) -> None:
    found = readable(("spec", "groups", 0, "pods"), pods)
    pod = h.owned(b.pod("p", namespace="ml", labels={"app": "x"}), "o")
    assert [each.pods.selects(pod) for each in found.places] == [False, False, True]
    assert [each.node for each in found.places] == ["n1", "n2", "n3"]


def test_a_hold_that_is_too_large_says_how_large() -> None:
    places = [h.place("p", "n" * 253, *(f"{'g' * 50}-{n}" for n in range(128))) for _ in range(200)]
    with pytest.raises(HoldTooLargeError, match="200 places with 25600 devices"):
        encoded(h.hold("h", *places))
