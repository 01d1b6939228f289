"""Every write against the real API server: what it does, what it leaves alone, and when it is refused."""

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from scheduler.kube import encode, paths, writes
from scheduler.kube.client import JSON_PATCH, Client
from scheduler.kube.encode import EventRecord, ObjectReference
from scheduler.kube.errors import Conflict, Invalid, NotFound
from solver.domain import (
    FINALIZER,
    Allocation,
    Claim,
    ClaimId,
    ConsumerReference,
    DeviceId,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    Pod,
    PodId,
    Toleration,
)
from solver.domain.quantity import parse
from tests.scheduler.kube.conftest import Cluster

pytestmark = pytest.mark.controlplane

SHARE = "6a1b5c7e-1f0e-4c51-9d43-0c5d0d3c8e11"
UNSORTED = '{"kind":"GpuConfig","b":1.0,"a":12345678901234567890}'
ALLOCATION = Allocation(
    results=(
        DeviceResult(
            request="gpu",
            device=DeviceId("gpu.example.com", "node-1", "gpu-0"),
            tolerations=(Toleration(key="k", operator="Exists", effect="NoExecute", toleration_seconds=0),),
            binding_conditions=("ready",),
            binding_failure_conditions=("broken",),
            share_id=SHARE,
            consumed_capacity=(("cores", parse("1")), ("memory", parse("10Gi"))),
        ),
    ),
    config=(OpaqueConfig(driver="gpu.example.com", parameters=UNSORTED, requests=("gpu",), source="FromClass"),),
    node_selector=NodeSelector(
        terms=(
            NodeSelectorTerm(
                match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=("node-1",)),)
            ),
        )
    ),
)

# The stand-in for drivers answers binding conditions, and so writes the claim between our own writes.
WITHOUT_CONDITIONS = msgspec.structs.replace(
    ALLOCATION,
    results=(msgspec.structs.replace(ALLOCATION.results[0], binding_conditions=(), binding_failure_conditions=()),),
)


def consumer_of(pod: Pod) -> ConsumerReference:
    return ConsumerReference.of(pod.id, pod.uid)


async def allocated(
    cluster: Cluster, *names: str, allocation: Allocation = WITHOUT_CONDITIONS
) -> tuple[Claim, list[ConsumerReference]]:
    """A claim that is allocated and reserved for pods of these names."""
    consumers = [consumer_of(await cluster.pod(name)) for name in names]
    claim = await writes.add_finalizer(cluster.client, await cluster.claim())
    return await writes.allocate(cluster.client, claim, allocation, consumers), consumers


async def test_the_finalizer_joins_those_that_are_there(cluster: Cluster) -> None:
    claim = await cluster.claim(finalizers=("example.com/other",))
    found = await writes.add_finalizer(cluster.client, claim)
    assert set(found.finalizers) == {"example.com/other", FINALIZER}
    raw = await cluster.raw_claim()
    raw["metadata"]["finalizers"] = []
    await cluster.send("PUT", paths.claim(claim.id), raw)


async def test_a_finalizer_that_is_there_costs_no_write(cluster: Cluster) -> None:
    claim = await writes.add_finalizer(cluster.client, await cluster.claim())
    assert await writes.add_finalizer(cluster.client, claim) is claim


async def test_an_adopted_claim_is_another_version_and_nothing_else(cluster: Cluster) -> None:
    claim, consumers = await allocated(cluster, "a")
    first = await writes.adopt(cluster.client, claim)
    second = await writes.adopt(cluster.client, first)
    assert len({each.resource_version for each in (claim, first, second)}) == 3
    assert msgspec.structs.replace(second, resource_version=claim.resource_version) == claim
    with pytest.raises(Conflict):
        await writes.release(cluster.client, claim, [consumers[0].uid], deallocate=True)


@pytest.mark.kubernetes(gates=("DRADeviceBindingConditions",))  # which has the timestamp
async def test_an_allocation_is_stored_as_it_was_decided_with_its_first_consumer(cluster: Cluster) -> None:
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    claim, consumers = await allocated(cluster, "a", allocation=ALLOCATION)
    assert claim.allocation is not None
    stamp = claim.allocation.allocation_timestamp
    assert before <= dt.datetime.fromisoformat(stamp) <= dt.datetime.now(dt.UTC)
    assert claim.allocation == msgspec.structs.replace(ALLOCATION, allocation_timestamp=stamp)
    assert claim.reserved_for == tuple(consumers)


async def test_a_second_consumer_joins_and_nothing_else_changes(cluster: Cluster) -> None:
    claim, consumers = await allocated(cluster, "a")
    before = (await cluster.raw_claim())["status"]
    more = consumer_of(await cluster.pod("b"))
    found = await writes.reserve(cluster.client, claim, [*consumers, more])
    assert found.reserved_for == (*consumers, more)
    after = (await cluster.raw_claim())["status"]
    assert after["allocation"] == before["allocation"]


async def test_a_consumer_that_is_there_costs_no_write(cluster: Cluster) -> None:
    claim, consumers = await allocated(cluster, "a")
    assert await writes.reserve(cluster.client, claim, consumers) is claim


async def report_device(cluster: Cluster, claim: Claim) -> Any:
    """What a driver writes into status.devices, as the API server stores it."""
    raw = await cluster.raw_claim()
    condition = {
        "type": "ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    raw["status"]["devices"] = [
        {
            "driver": "gpu.example.com",
            "pool": "node-1",
            "device": "gpu-0",
            "shareID": SHARE,
            "conditions": [condition],
            "data": {"z": 1, "a": 2},
            "networkData": {"interfaceName": "eth9"},
        }
    ]
    return (await cluster.send("PUT", paths.claim(claim.id, "status"), raw))["status"]["devices"]


async def test_what_a_driver_reports_survives_our_writes(cluster: Cluster) -> None:
    claim, consumers = await allocated(cluster, "a", "b")
    reported = await report_device(cluster, claim)
    fresh = await writes.read_claim(cluster.client, claim.id)
    assert fresh is not None
    fresh = await writes.release(cluster.client, fresh, [consumers[0].uid], deallocate=False)
    await writes.reserve(cluster.client, fresh, [consumers[0]])
    assert (await cluster.raw_claim())["status"]["devices"] == reported


async def test_one_consumer_goes_and_the_others_stay(cluster: Cluster) -> None:
    claim, consumers = await allocated(cluster, "a", "b", "c")
    found = await writes.release(cluster.client, claim, [consumers[1].uid], deallocate=False)
    assert found.reserved_for == (consumers[0], consumers[2])
    assert found.allocation == claim.allocation


async def test_releasing_a_missing_consumer_costs_no_write(cluster: Cluster) -> None:
    claim, _ = await allocated(cluster, "a")
    assert await writes.release(cluster.client, claim, ["nobody"], deallocate=False) is claim


async def test_the_last_consumer_and_the_allocation_go_in_one_write_with_what_drivers_said(cluster: Cluster) -> None:
    claim, consumers = await allocated(cluster, "a")
    await report_device(cluster, claim)
    fresh = await writes.read_claim(cluster.client, claim.id)
    assert fresh is not None
    found = await writes.release(cluster.client, fresh, [consumers[0].uid], deallocate=True)
    assert (found.allocation, found.reserved_for, found.device_status) == (None, (), ())
    assert int(found.resource_version) > int(fresh.resource_version)


async def test_a_claim_is_not_deallocated_under_others(cluster: Cluster) -> None:
    claim, consumers = await allocated(cluster, "a", "b")
    with pytest.raises(ValueError, match="reserved for others too"):
        await writes.release(cluster.client, claim, [consumers[0].uid], deallocate=True)


async def test_a_claim_that_is_allocated_is_not_allocated_again(cluster: Cluster) -> None:
    claim, consumers = await allocated(cluster, "a")
    with pytest.raises(ValueError, match="allocated already"):
        await writes.allocate(cluster.client, claim, ALLOCATION, consumers)


async def test_a_claim_is_not_allocated_without_a_consumer(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="without a consumer"):
        await writes.allocate(cluster.client, await cluster.claim(), ALLOCATION, [])


async def test_an_unallocated_claim_is_not_reserved(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="is not allocated"):
        await writes.reserve(cluster.client, await cluster.claim(), [])


@pytest.mark.parametrize(
    "parameters",
    [UNSORTED, '{"a": 1, "b": [ ]}', '{"a":"<&>"}', '{"a":1.0}'],
    ids=["unsorted", "blanks", "html", "float"],
)
async def test_opaque_parameters_of_any_spelling_can_be_allocated_and_reserved(
    cluster: Cluster, parameters: str
) -> None:
    claim = await cluster.claim(parameters=parameters)
    claim = await writes.add_finalizer(cluster.client, claim)
    assert FINALIZER in claim.finalizers
    config = tuple(msgspec.structs.replace(each, source="FromClaim") for each in claim.config)
    allocation = msgspec.structs.replace(WITHOUT_CONDITIONS, config=config)
    first, second = [consumer_of(await cluster.pod(name)) for name in ("a", "b")]
    claim = await writes.allocate(cluster.client, claim, allocation, [first])
    claim = await writes.reserve(cluster.client, claim, [second])
    claim = await writes.adopt(cluster.client, claim)
    claim = await writes.release(cluster.client, claim, [first.uid], deallocate=False)
    assert claim.reserved_for == (second,)
    assert claim.allocation is not None
    assert claim.allocation.config == config


Write = Callable[[Client, Claim], Awaitable[Claim]]


@pytest.mark.parametrize(
    "write",
    [
        lambda client, claim: writes.add_finalizer(client, msgspec.structs.replace(claim, finalizers=())),
        writes.adopt,
        lambda client, claim: writes.reserve(client, claim, [ConsumerReference(resource="pods", name="x", uid="x")]),
        lambda client, claim: writes.release(client, claim, [claim.reserved_for[0].uid], deallocate=False),
        lambda client, claim: writes.release(client, claim, [claim.reserved_for[0].uid], deallocate=True),
        lambda client, claim: writes.allocate(
            client, msgspec.structs.replace(claim, allocation=None), ALLOCATION, claim.reserved_for
        ),
    ],
    ids=["finalizer", "adopt", "reserve", "release", "deallocate", "allocate"],
)
async def test_a_write_for_another_version_of_the_claim_is_refused(cluster: Cluster, write: Write) -> None:
    claim, _ = await allocated(cluster, "a")
    with pytest.raises(Conflict):
        await write(cluster.client, msgspec.structs.replace(claim, resource_version="1"))
    assert await writes.read_claim(cluster.client, claim.id) == claim


async def test_a_claim_made_anew_under_its_name_is_not_written(cluster: Cluster) -> None:
    old = await cluster.claim()
    await cluster.send("DELETE", paths.claim(old.id))
    new = await cluster.claim()
    with pytest.raises(Conflict):
        await writes.add_finalizer(cluster.client, old)
    assert await writes.read_claim(cluster.client, new.id) == new


async def test_parameters_that_json_cannot_carry_are_guarded_by_the_version_too(cluster: Cluster) -> None:
    claim = await cluster.claim(parameters='{"a": 1}')
    await writes.add_finalizer(cluster.client, claim)
    with pytest.raises(Conflict):
        await writes.add_finalizer(cluster.client, claim)
    with pytest.raises(Conflict):
        await writes.adopt(cluster.client, claim)


async def test_an_allocation_with_blanks_by_another_scheduler_can_be_shared(cluster: Cluster) -> None:
    """kube-scheduler writes protobuf, which keeps the blanks of the claim's parameters in the allocation."""
    claim = await writes.add_finalizer(cluster.client, await cluster.claim())
    first, second, third = [consumer_of(await cluster.pod(name)) for name in ("a", "b", "c")]
    with_blanks = b'{ "kind": "GpuConfig" }'
    patch = encode.allocation_patch(
        claim,
        msgspec.structs.replace(
            WITHOUT_CONDITIONS, config=(msgspec.structs.replace(ALLOCATION.config[0], parameters=with_blanks.decode()),)
        ),
        [first],
    )
    assert with_blanks in patch
    await cluster.send("PATCH", paths.claim(claim.id, "status"), patch, content_type=JSON_PATCH)
    allocated = await writes.read_claim(cluster.client, claim.id)
    assert allocated is not None
    found = await writes.reserve(cluster.client, allocated, [second, third])
    assert found.reserved_for == (first, second, third)
    found = await writes.release(cluster.client, found, [second.uid], deallocate=False)
    assert found.reserved_for == (first, third)
    found = await writes.release(cluster.client, found, [first.uid, third.uid], deallocate=True)
    assert (found.reserved_for, found.allocation) == ((), None)


async def test_an_allocation_that_the_api_refuses_is_invalid(cluster: Cluster) -> None:
    consumer = consumer_of(await cluster.pod())
    wrong = Allocation(results=(DeviceResult(request="unheard-of", device=DeviceId("d.io", "p", "x")),))
    with pytest.raises(Invalid, match="unheard-of"):
        await writes.allocate(cluster.client, await cluster.claim(), wrong, [consumer])


async def test_a_pod_is_bound_once(cluster: Cluster) -> None:
    pod = await cluster.pod()
    await writes.bind(cluster.client, pod.id, pod.uid, "node-1")
    bound = await writes.read_pod(cluster.client, pod.id)
    assert bound is not None
    assert bound.node_name == "node-1"
    with pytest.raises(Conflict):
        await writes.bind(cluster.client, pod.id, pod.uid, "node-1")


async def test_a_namesake_is_not_bound(cluster: Cluster) -> None:
    pod = await cluster.pod()
    with pytest.raises(Conflict):
        await writes.bind(cluster.client, pod.id, "another-uid", "node-1")


async def test_a_pod_that_is_gone_is_not_found(cluster: Cluster) -> None:
    gone = PodId(cluster.namespace, "gone")
    with pytest.raises(NotFound):
        await writes.bind(cluster.client, gone, "u", "node-1")
    assert await writes.read_pod(cluster.client, gone) is None
    assert await writes.read_claim(cluster.client, ClaimId(cluster.namespace, "gone")) is None


async def test_a_pod_says_why_it_waits(cluster: Cluster) -> None:
    pod = await cluster.pod()
    since = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    await writes.write_pod_condition(
        cluster.client, pod, reason="Unschedulable", message="no device", nominated_node_name="node-2", since=since
    )
    await writes.write_pod_condition(cluster.client, pod, reason="Unschedulable", message="none at all", since=since)
    status = (await cluster.send("GET", paths.pod(pod.id)))["status"]
    (condition,) = status["conditions"]
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "none at all",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    assert status["nominatedNodeName"] == "node-2"
    await writes.write_pod_condition(cluster.client, pod, reason="r", message="m", nominated_node_name="")
    assert "nominatedNodeName" not in (await cluster.send("GET", paths.pod(pod.id)))["status"]


async def test_a_pod_of_the_same_name_does_not_get_the_condition(cluster: Cluster) -> None:
    pod = await cluster.pod()
    with pytest.raises(Conflict):
        await writes.write_pod_condition(
            cluster.client, msgspec.structs.replace(pod, uid="another"), reason="r", message="m"
        )


async def test_an_event_is_stored_and_counted_on(cluster: Cluster) -> None:
    pod = await cluster.pod()
    record = EventRecord(
        name="pod.1",
        regarding=ObjectReference(namespace=cluster.namespace, name="pod", uid=pod.uid),
        related=ObjectReference(kind="Node", name="node-1"),
        type="Warning",
        reason="FailedScheduling",
        action="Scheduling",
        note="no device",
        reporting_controller="dovetail",
        reporting_instance="dovetail-0",
        first_seen=dt.datetime.now(dt.UTC),
    )
    path = paths.events(cluster.namespace, "pod.1")
    await writes.write_event(cluster.client, record)
    stored = await cluster.send("GET", path)
    assert (stored["note"], stored["type"], "series" in stored) == ("no device", "Warning", False)
    again = msgspec.structs.replace(record, count=2, last_seen=dt.datetime.now(dt.UTC))
    await writes.write_event(cluster.client, again)
    assert (await cluster.send("GET", path))["series"]["count"] == 2
    await cluster.send("DELETE", path)
    await writes.write_event(cluster.client, msgspec.structs.replace(again, count=3))
    assert (await cluster.send("GET", path))["series"]["count"] == 3
