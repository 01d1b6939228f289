"""What an object costs is bounded, whatever is in it: passes over its JSON, and values that are made of it."""

from typing import Any

import msgspec
import pytest

from e2e.hostile.extremes.catalogue import as_served, extremes
from e2e.hostile.extremes.refused import refusals
from scheduler.change import Kind
from scheduler.cluster.interning import size_of
from scheduler.kube.decode import claims, objects, partial_objects, pods
from scheduler.kube.decode.json_parts import JsonObject
from scheduler.kube.decode.objects import read
from scheduler.kube.decode.pieces import PIECE_BYTES, at_once
from scheduler.kube.decode.value_limits import MOST_VALUES, most_values, refuse_too_many, values_of
from scheduler.kube.watching.list_watch import ListWatch, Received
from solver.domain import ALL_POD_SLOTS, Claim, Pod, ResourceSlice
from tests.support.kube_objects import claim, container, encoded, page, pod, resource_slice
from tests.support.received import take_lines

MOST_PASSES = 16
"""Times that the JSON of an object is gone over: its line, its levels, its parts and their values, and decoding."""
TOO_MANY = MOST_VALUES + 1


def wide(**spec: Any) -> bytes:
    return encoded(pod("wide", **spec))


def test_an_object_within_the_limit_is_read_whatever_else_it_has() -> None:
    """Values that no decoder looks into do not count."""
    env = [{"name": f"v{number}"} for number in range(TOO_MANY)]
    body = pod("wide", containers=[{**container("main", cpu="1"), "env": env}])
    body["metadata"]["managedFields"] = [{"fieldsV1": {f"f:{number}": {} for number in range(TOO_MANY)}}]
    value, problem = read(Kind.PODS, encoded(body))
    assert problem is None
    assert isinstance(value, Pod)
    assert dict(value.requests)["cpu"] == 1000


def test_opaque_parameters_and_data_of_devices_do_not_count() -> None:
    parameters = {"many": list(range(TOO_MANY))}
    result = {"request": "g", "driver": "d", "pool": "p", "device": "x"}
    config = [{"opaque": {"driver": "d", "parameters": parameters}}]
    status = {
        "allocation": {
            "devices": {"results": [result], "config": [{"opaque": {"driver": "d", "parameters": parameters}}]}
        },
        "devices": [{"driver": "d", "pool": "p", "device": "x", "data": parameters}],
    }
    body = claim("wide", config=config, status=status)
    value, problem = read(Kind.CLAIMS, encoded(body))
    assert problem is None
    assert isinstance(value, Claim)
    assert value.allocation is not None
    assert value.allocation.results[0].device.device == "x"


VALUES = f"no more than {MOST_VALUES} of an object are read: use fewer"


@pytest.mark.parametrize(
    ("field", "spec", "said"),
    [
        ("spec.tolerations", {"tolerations": [{"key": f"k{number}"} for number in range(TOO_MANY)]}, VALUES),
        ("spec.containers", {"containers": [{"name": f"c{number}"} for number in range(TOO_MANY)]}, "use at most 2000"),
        ("spec.containers", {"containers": [{"name": "c", "ports": [{"hostPort": 1}] * TOO_MANY}]}, VALUES),
        ("spec.nodeSelector", {"nodeSelector": {f"k{number}": "" for number in range(TOO_MANY)}}, VALUES),
    ],
)
def test_beyond_the_limit_the_message_names_the_field_and_the_limit(
    field: str, spec: dict[str, Any], said: str
) -> None:
    value, problem = read(Kind.PODS, wide(**spec))
    assert problem is not None
    assert problem.field == field
    assert said in problem.message
    assert isinstance(value, Pod)
    assert problem.message in value.invalid


def test_a_bound_pod_beyond_the_limit_takes_what_can_be_read_of_it() -> None:
    tolerations = [{"key": f"k{number}"} for number in range(TOO_MANY)]
    value, _ = read(Kind.PODS, wide(nodeName="n", tolerations=tolerations, containers=[container("main", cpu="2")]))
    assert isinstance(value, Pod)
    assert dict(value.requests)["cpu"] == 2000


def test_a_bound_pod_with_too_many_containers_fills_its_node() -> None:
    value, _ = read(Kind.PODS, wide(nodeName="n", containers=[{"name": f"c{number}"} for number in range(TOO_MANY)]))
    assert isinstance(value, Pod)
    assert value.requests == ALL_POD_SLOTS


def test_the_count_is_above_what_lists_and_maps_have() -> None:
    assert values_of(msgspec.json.encode({"a": [1, 2, 3], "b": {"c": 1}})) == 4


@pytest.fixture
def decoded_values(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The values of each JSON that is decoded to an object or a part of it; opaque texts count as one."""
    found: list[int] = []
    honest_pod, honest_claim = pods.decode_pod, claims.decode_claim

    def decode_pod(raw: Any) -> Pod:
        found.append(values_of(raw))
        return honest_pod(raw)

    def decode_claim(raw: Any, made: Any = None) -> Claim:
        found.append(0)
        return honest_claim(raw, made)

    monkeypatch.setattr(pods, "decode_pod", decode_pod)
    monkeypatch.setattr(partial_objects, "decode_claim", decode_claim)
    return found


def event_of(text: bytes) -> bytes:
    return b'{"type":"MODIFIED","object":' + text + b"}"


def followed(kind: Kind) -> ListWatch:
    mirrored = ListWatch(kind)
    mirrored.start_listing()
    at_once(mirrored.receive_page(page(), Received()))
    return mirrored


@pytest.mark.parametrize("kind", list(Kind), ids=str)
def test_the_largest_objects_cost_few_passes_and_few_values(kind: Kind, decoded_values: list[int]) -> None:
    """A wide object of each kind, readable and refused; three of the kinds that tenants and drivers fill."""
    is_filled = kind in {Kind.PODS, Kind.CLAIMS, Kind.SLICES}
    shapes = sorted(extremes((kind,)), key=lambda shape: "wide" not in shape.shape)[: 3 if is_filled else 1]
    for each in shapes:
        for refusal in refusals(kind)[:2]:
            text = as_served(each, each.make(), refusal).text
            decoded_values.clear()
            work = list(followed(kind).receive_lines([event_of(text)], Received()))
            assert sum(work) <= MOST_PASSES * len(text) + PIECE_BYTES, each.shape
            assert max(work) <= 4 * len(text) + 1000, each.shape
            assert sum(decoded_values) <= 2 * most_values(kind), each.shape


def test_counting_alone_refuses_nothing_small() -> None:
    small = encoded(pod("small"))
    assert list(refuse_too_many(Kind.PODS, JsonObject(small))) == []


def test_a_refused_pod_is_as_cheap_when_it_changes_again() -> None:
    """Nothing of earlier versions is gone over again."""
    mirrored, costs = followed(Kind.PODS), []
    for version in range(2, 5):
        body = pod("wide", version=version, tolerations=[{"key": f"k{number}"} for number in range(TOO_MANY)])
        costs.append(sum(mirrored.receive_lines([event_of(encoded(body))], Received())))
    assert max(costs) <= min(costs) + 1000
    assert take_lines(mirrored, []).problems == []
    assert objects.read(Kind.PODS, encoded(pod("b"))).problem is None


ENDS = ("results[]", "consumedCapacity{}", "matchExpressions[]", "matchFields[].values[]", "reservedFor[]")
WIDE = [
    (kind, extreme.shape)
    for kind in (Kind.CLAIMS, Kind.SLICES)
    for extreme in extremes((kind,))
    if extreme.shape.startswith(("wide status", "wide spec.nodeSelector")) and extreme.shape.endswith(ENDS)
]


@pytest.mark.parametrize(("kind", "shape"), WIDE)
def test_little_is_kept_of_an_object_that_has_too_many_values(kind: Kind, shape: str) -> None:
    """Also where no version of it has been read before, so that its status or its scope counts by itself."""
    extreme = next(each for each in extremes((kind,)) if each.shape == shape)
    value, problem = read(kind, as_served(extreme, extreme.make()).text)
    if problem is not None:
        assert size_of(value) < 200_000


def test_a_share_with_more_capacities_than_a_device_has_holds_the_device_whole() -> None:
    """What it has consumed is not known, and the claim has never been read."""
    consumed = {f"c{number}": "1" for number in range(TOO_MANY)}
    results = [
        {"request": "g", "driver": "d", "pool": "p", "device": name, "shareID": "s", "consumedCapacity": each}
        for name, each in (("x", consumed), ("y", {"memory": "1Gi"}))
    ]
    consumers = [{"resource": "pods", "name": "p", "uid": "u"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": consumers}
    value, problem = read(Kind.CLAIMS, encoded(claim("wide", status=status)))
    assert problem is not None
    assert isinstance(value, Claim)
    assert value.allocation is not None
    held = [(each.device.device, each.share_id, len(each.consumed_capacity)) for each in value.allocation.results]
    assert held == [("x", "", 0), ("y", "s", 1)]
    assert [each.uid for each in value.reserved_for] == ["u"]


def test_a_slice_of_which_the_nodes_are_too_many_to_read_makes_its_pool_unusable_everywhere() -> None:
    term = {"matchExpressions": [{"key": f"k{number}", "operator": "Exists"} for number in range(TOO_MANY)]}
    body = resource_slice("wide", nodeName=None, nodeSelector={"nodeSelectorTerms": [term]})
    value, problem = read(Kind.SLICES, encoded(body))
    assert problem is not None
    assert isinstance(value, ResourceSlice)
    assert (value.scope.all_nodes, bool(value.invalid)) == (True, True)
