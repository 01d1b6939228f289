"""What `dovetail status` says of a cluster: devices, drivers, pools, pods that wait, other schedulers."""

import datetime as dt
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.installation import installed_pods
from scheduler.installation.cluster_findings import ClusterPart, of_cluster
from scheduler.installation.findings import FindingState
from scheduler.kube.pod_writes import PendingPod, PodScheduled
from scheduler.simulation.devices_output import FleetAnswer
from solver import fleet_of
from solver.domain import NodeSelectorRequirement, NodeSelectorTerm, OwnedDevices, Policy, QuotaState, Snapshot
from solver.domain.quotas.quota_tree import QuotaFinding
from tests.support import builders as b

NOW = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.UTC)
TYPE = "node.kubernetes.io/instance-type"


def cluster(snapshot: Snapshot, owned: OwnedDevices = OwnedDevices(), **more: Any) -> ClusterPart:  # noqa: B008 - frozen
    labels = {node.name: dict(node.labels) for node in snapshot.nodes}
    fleet = fleet_of(snapshot, Policy(owned=owned), node_group_label=TYPE)
    answer = FleetAnswer(fleet=fleet, node_labels=labels, pods=snapshot.pods, **more)
    drivers = {b.GPU_DRIVER: ("gpu",), "other.example.com": ("nic", "fast-nic")}
    names = {"dovetail"}
    return of_cluster(answer, NOW, names=names, served=names, class_drivers=drivers, group_label=TYPE, owned=owned)


def said(part: ClusterPart, about: str) -> list[tuple[FindingState, str]]:
    return [(each.state, each.message) for each in part.findings if each.about == about]


def test_devices_are_counted_by_driver_and_state() -> None:
    part = cluster(
        b.snapshot(
            b.node("n1"),
            b.node("n2", is_unschedulable=True),
            b.gpu_slice("n1", count=3),
            b.gpu_slice("n2", count=1),
            b.held("job", b.result("gpu", "gpu-0", "n1"), node_name="n1"),
        )
    )
    (devices,) = part.devices
    assert (devices.driver, devices.total, devices.held, devices.free, devices.unusable) == (b.GPU_DRIVER, 4, 1, 2, 1)
    assert said(part, "devices") == [
        (FindingState.WARNING, f"driver {b.GPU_DRIVER}: 4 devices, 1 held, 2 free, 1 unusable")
    ]


def test_a_driver_that_a_class_names_and_no_slice_has() -> None:
    part = cluster(b.snapshot(b.node("n1"), b.gpu_slice("n1", count=1)))
    text = "other.example.com publishes no device, and DeviceClass nic, fast-nic needs it"
    assert said(part, "drivers") == [(FindingState.WARNING, text)]


def test_nodes_on_which_a_driver_is_silent_are_named_by_their_type() -> None:
    nodes = [b.node(f"big-{number}", labels={TYPE: "big"}) for number in range(3)]
    part = cluster(b.snapshot(*nodes, b.node("small", labels={TYPE: "small"}), b.gpu_slice("big-0", count=1)))
    assert said(part, "drivers")[1] == (
        FindingState.WARNING,
        f"{b.GPU_DRIVER} publishes nothing on big-1, big-2: 2 nodes of a type whose other nodes have its devices",
    )


def test_an_incomplete_pool_is_named() -> None:
    part = cluster(b.snapshot(b.node("n1"), replace(b.gpu_slice("n1", count=1), slice_count=2)))
    ((state, text),) = said(part, "pools")
    assert state is FindingState.WARNING
    assert f"no claim gets devices of {b.GPU_DRIVER}/n1" in text


@pytest.mark.parametrize(("scheduler", "count"), [("default-scheduler", 1), ("dovetail", 0)])
def test_a_scheduler_that_allocates_the_same_devices_is_named(scheduler: str, count: int) -> None:
    claim = replace(b.held("job", b.result("gpu", "gpu-0", "n1"), node_name="n1"), reserved_for=(b.consumer("job"),))
    pod = replace(b.pod("job", "job"), node_name="n1", scheduler_name=scheduler)
    found = said(cluster(b.snapshot(b.node("n1"), b.gpu_slice("n1", count=2), claim, pod)), "schedulers")
    assert len(found) == count
    assert all(text.startswith(f"pods of {scheduler} hold 1 device that Dovetail allocates too") for _, text in found)


def test_the_oldest_pod_that_waits_is_named() -> None:
    condition = PodScheduled("False", "Unschedulable", "0/1 nodes are available")
    waiting = (
        PendingPod(replace(b.pod("gated"), creation="2026-01-01T08:00:00Z", scheduling_gates=("g",)), None),
        PendingPod(replace(b.pod("old"), creation="2026-01-01T09:00:00Z"), condition),
        PendingPod(replace(b.pod("new"), creation="2026-01-01T11:00:00Z"), condition),
        PendingPod(replace(b.pod("another"), creation="2026-01-01T01:00:00Z", scheduler_name="other"), None),
    )
    part = cluster(b.snapshot(b.node("n1")), waiting=waiting)
    assert part.waiting is not None
    assert (part.waiting.waiting, part.waiting.gated, part.waiting.oldest) == (3, 1, str(b.pod("old").id))
    (_, text), (state, unserved) = said(part, "queue")
    assert (state, unserved.partition(". ")[0]) == (FindingState.WARNING, "1 pod waits without a scheduler")
    assert text == (
        f"3 pods wait, 1 of them with scheduling gates; the oldest is {b.pod('old').id}, for 3h (Unschedulable)"
    )


def test_pods_whose_scheduler_is_misspelt_are_a_warning_that_says_how_to_find_them() -> None:
    waiting = [PendingPod(replace(b.pod("p"), scheduler_name="dovetial"), None)]
    part = cluster(b.snapshot(b.node("n1")), waiting=tuple(waiting))
    (found,) = (each for each in part.findings if each.state is FindingState.WARNING and each.about == "queue")
    assert found.message.startswith("1 pod waits without a scheduler. Dovetail schedules no pod with schedulerName")
    assert "Write schedulerName: dovetail" in found.message
    assert found.next_step == "kubectl get pods -A --field-selector spec.schedulerName=dovetial"


def test_of_many_names_that_nobody_serves_those_with_most_pods_are_said() -> None:
    names = ["a", "b", "b", "c", "c", "d", "d", "e", "e"]
    pods = (replace(b.pod(f"p{at}"), scheduler_name=f"team-{name}") for at, name in enumerate(names))
    part = cluster(b.snapshot(b.node("n1")), waiting=tuple(PendingPod(pod, None) for pod in pods))
    messages = [text for state, text in said(part, "queue") if state is FindingState.WARNING]
    assert len(messages) == 5
    assert messages[-1] == "1 pod waits with 1 more such schedulerNames"


@pytest.mark.parametrize(
    ("expression", "drivers"),
    [
        ('device.driver == "a.example.com"', {"a.example.com"}),
        ("'a.example.com' == device.driver && device.attributes['x'].y", {"a.example.com"}),
        ("device.driver == 'a.example.com' || device.driver == \"b\"", {"a.example.com", "b"}),
        ("device.driver != 'a.example.com'", set()),
    ],
)
def test_the_drivers_that_a_class_names(expression: str, drivers: set[str]) -> None:
    body = {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    assert installed_pods.drivers_of(msgspec.convert(body, installed_pods._Class)) == drivers  # noqa: SLF001 - what is decoded


def labelled(*labels: str) -> OwnedDevices:
    parts = (NodeSelectorRequirement(key=key, operator="In", values=("true",)) for key in labels)
    return OwnedDevices(node_terms=(NodeSelectorTerm(match_expressions=tuple(parts)),))


@pytest.mark.parametrize(
    ("owned", "message", "step"),
    [
        (
            labelled("own"),
            "nodes with own=true, and no node has it",
            "kubectl label node NAME own=true",
        ),
        (
            labelled("own", "too"),
            "nodes with own=true,too=true, and no node has these labels",
            "kubectl label node NAME own=true too=true",
        ),
        (
            OwnedDevices(drivers=("gpu.exmaple.com",)),
            "devices of gpu.exmaple.com, and no such driver publishes any",
            f"write a driver that publishes devices into devices.owned.drivers: {b.GPU_DRIVER}",
        ),
        (labelled("empty"), "nodes with empty=true, and these publish none", "kubectl get resourceslices"),
    ],
)
def test_a_configuration_that_owns_no_device_says_what_to_do(owned: OwnedDevices, message: str, step: str) -> None:
    snapshot = b.snapshot(b.node("n1"), b.node("n2", labels={"empty": "true"}), b.gpu_slice("n1", count=2))
    (line,) = [each for each in cluster(snapshot, owned).findings if each.message.startswith("Dovetail owns none")]
    assert line.state is FindingState.WARNING
    assert line.message == f"Dovetail owns none of 2 devices: devices.owned wants {message}"
    assert line.next_step == step


def test_devices_that_are_owned_in_part_are_no_warning() -> None:
    nodes = (b.node("n1", labels={"own": "true"}), b.node("n2"))
    part = cluster(b.snapshot(*nodes, b.gpu_slice("n1", count=1), b.gpu_slice("n2", count=1)), labelled("own"))
    assert [state for state, _ in said(part, "devices")] == [FindingState.OK]


def test_tainted_devices_are_counted_also_where_they_are_held() -> None:
    devices = (b.device("gpu-0", taints=(b.taint("broken"),)), b.device("gpu-1"))
    held = b.held("job", b.result("gpu", "gpu-0", "n1"), node_name="n1")
    part = cluster(b.snapshot(b.node("n1"), b.resource_slice("n1", *devices), held))
    text = f"driver {b.GPU_DRIVER}: 2 devices, 1 held, 1 free; 1 of them tainted"
    assert said(part, "devices") == [(FindingState.WARNING, text)]
    assert part.devices[0].tainted == 1


def test_a_quota_that_is_not_valid_is_a_warning() -> None:
    found = QuotaFinding(quota="team-a", reason="ParentUnknown", message="spec.parent: there is no DeviceQuota b")
    part = cluster(b.snapshot(), quotas=(QuotaState(quota="team-a", findings=(found,)), QuotaState(quota="fine")))
    assert [(each.message, each.next_step) for each in part.findings if each.about == "quotas"] == [
        ("team-a is not valid: spec.parent: there is no DeviceQuota b", "kubectl edit devicequota team-a")
    ]
