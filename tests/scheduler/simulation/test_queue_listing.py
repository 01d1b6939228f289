"""`dovetail queue`: order, short reasons, and the table."""

import datetime as dt
import io

import pytest
from msgspec.structs import replace

from scheduler.api import selector_parameter
from scheduler.kube.pod_writes import PendingPod, PodScheduled
from scheduler.queue import SchedulingQueue, in_queue_order
from scheduler.simulation import queue_listing
from scheduler.status import waiting_pods
from solver.domain import Controller, Pod
from tests.support import builders as b

NAMES = ("dovetail",)
COUNTS = "0/9 nodes are available: 2 node(s) had untolerated taint {a.example.com/b: }, 7 cannot allocate all claims."
NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def created(name: str, minute: int, *, priority: int = 0) -> Pod:
    return b.pod(name, priority=priority, creation=f"2026-01-01T11:{minute:02}:00Z")


def listed(*pods: Pod) -> list[tuple[int | None, str]]:
    found = queue_listing.listed([PendingPod(pod, None) for pod in pods], NAMES)
    return [(each.position, each.name) for each in found]


def test_the_order_is_by_priority_and_then_by_age() -> None:
    pods = (created("young", 5), created("old", 1), created("urgent", 9, priority=7))

    assert listed(*pods) == [(1, "urgent"), (2, "old"), (3, "young")]


def test_the_order_is_that_of_the_scheduling_queue() -> None:
    pods = [created(f"p{number}", number * 7 % 10, priority=number % 3) for number in range(10)]
    queue = SchedulingQueue(NAMES)
    for pod in pods:
        queue.offer(pod, float(pod.creation[14:16]))

    batch = queue.take_batch(100.0, 100)

    assert [pod.id for pod in in_queue_order(pods)] == [pod.id for pod in batch.pods]
    assert [name for _, name in listed(*pods)] == [pod.id.name for pod in batch.pods]


def test_pods_without_a_time_come_last_in_their_own_order() -> None:
    pods = (b.pod("p-10", creation=""), b.pod("p-2", creation=""), created("seen", 1))

    assert [pod.id.name for pod in in_queue_order(pods)] == ["seen", "p-10", "p-2"]


def test_a_gang_is_decided_with_its_first_pod() -> None:
    pods = (b.member(created("a", 1), "g"), created("b", 2), b.member(created("c", 3), "g"))

    assert listed(*pods) == [(1, "a"), (1, "c"), (2, "b")]


def test_gated_pods_have_no_position() -> None:
    gated = replace(created("gated", 1), scheduling_gates=("example.com/quota",))

    (one, other) = queue_listing.listed([PendingPod(each, None) for each in (gated, created("p", 2))], NAMES)

    assert (one.position, other.position) == (1, None)
    assert (other.reason, other.why) == ("SchedulingGated", "waits until these gates are removed: example.com/quota")


def test_positions_are_those_among_all_pods() -> None:
    labelled = replace(created("b", 2), labels=(("app", "x"),))
    pods = [PendingPod(each, None) for each in (created("a", 1), labelled)]
    selector = selector_parameter.parse("app=x")

    assert [each.position for each in queue_listing.listed(pods, NAMES, "default", selector)] == [2]
    assert queue_listing.listed(pods, NAMES, "team") == ()


def test_pods_of_other_schedulers_are_left_out() -> None:
    assert listed(replace(created("p", 1), scheduler_name="default-scheduler")) == []


def test_a_pod_that_no_scheduler_has_seen() -> None:
    (found,) = queue_listing.listed([PendingPod(created("p", 1), None)], NAMES)

    assert (found.reason, found.why) == ("New", "no scheduler has written a condition yet")


@pytest.mark.parametrize(
    ("message", "short"),
    [
        (f'{COUNTS} Hint: write quantity("79Gi"). request gpu: needs 1 device.', 'write quantity("79Gi")'),
        (f"{COUNTS} Hint: did you mean a100? request gpu: needs 1 device.", "did you mean a100?"),
        (f"{COUNTS} request gpu: needs 1 device, 16 match, 0 free.", "request gpu: needs 1 device, 16 match, 0 free"),
        (COUNTS, "2 node(s) had untolerated taint {a.example.com/b: }, 7 cannot allocate all claims"),
        (
            "0/2 nodes are available: 2 x. 1 node(s) had untolerated taint {a}; 1 node(s) had untolerated taint {b}.",
            "2 x",
        ),
        ("0/9 nodes are available.", "0/9 nodes are available"),
        ("claim c does not exist yet.", "claim c does not exist yet"),
        (
            "0/9 nodes are available: 1 Insufficient cpu. 2 node(s) had untolerated taint {a.example.com/b: }.",
            "1 Insufficient cpu",
        ),
        (
            "0/9 nodes are available: request gpu: device class gpu.nvidia.co does not exist. Hint: did you mean gpu?",
            "request gpu: device class gpu.nvidia.co does not exist: did you mean gpu?",
        ),
    ],
)
def test_the_short_reason(message: str, short: str) -> None:
    assert waiting_pods.short_reason(message) == short


def test_the_table_has_the_whole_reason() -> None:
    condition = PodScheduled("False", "Unschedulable", f"{COUNTS} {'x' * 100}.", NOW)
    pods = queue_listing.listed([PendingPod(created("p", 30), condition)], NAMES)

    narrow, wide = io.StringIO(), io.StringIO()
    queue_listing.show(pods, narrow, NOW, is_wide=False, namespace="")
    queue_listing.show(pods, wide, NOW, is_wide=True, namespace="default")

    assert narrow.getvalue().splitlines()[1].split() == ["1", "default", "p", "0", "30m", "Unschedulable", "x" * 100]
    assert wide.getvalue().splitlines()[1].split()[-1] == "x" * 100


def test_an_empty_queue() -> None:
    to = io.StringIO()
    queue_listing.show((), to, NOW, is_wide=False, namespace="")
    queue_listing.show((), to, NOW, is_wide=False, namespace="team")

    assert to.getvalue() == (
        "No pod waits for Dovetail.\nNo pod waits for Dovetail in namespace team (-A shows all namespaces).\n"
    )


def test_equal_pods_of_a_gang_are_one_row_that_names_the_gang() -> None:
    condition = PodScheduled("False", "Unschedulable", "0/9 nodes are available. needs 8 devices.", NOW)
    other = PodScheduled("False", "Unschedulable", "0/9 nodes are available. needs cpu.", NOW)
    workers = [b.member(created(f"worker-{each}", each), "training") for each in range(3)]
    pending = [PendingPod(pod, said) for pod, said in zip(workers, (condition, condition, other), strict=True)]
    pods = queue_listing.listed([*pending, PendingPod(created("alone", 9), condition)], NAMES)

    narrow, wide = io.StringIO(), io.StringIO()
    queue_listing.show(pods, narrow, NOW, is_wide=False, namespace="default")
    queue_listing.show(pods, wide, NOW, is_wide=True, namespace="default")

    rows = [[cell.strip() for cell in line.split("   ") if cell] for line in narrow.getvalue().splitlines()[1:]]
    assert [row[1] for row in rows] == ["gang/training (2 pods)", "worker-2", "alone"]
    assert rows[0][3] == "1h"
    assert len(wide.getvalue().splitlines()) == 1 + len(pods)


def unserved(*pods: Pod, known: str = "", namespace: str = "", labels: str = "") -> list[tuple[str, int]]:
    """Names and counts; the pod `known` has a condition."""
    condition = PodScheduled("False", "Unschedulable", COUNTS, None)
    seen = [PendingPod(pod, condition if pod.id.name == known else None) for pod in pods]
    selector = selector_parameter.parse(labels) if labels else None
    found = queue_listing.unserved_pods(seen, NAMES, NOW, namespace, selector)
    assert all(f"schedulerName {each.scheduler_name}" in each.message for each in found)
    return [(each.scheduler_name, each.pods) for each in found]


def of(pod: Pod, scheduler_name: str) -> Pod:
    return replace(pod, scheduler_name=scheduler_name)


def test_pods_whose_scheduler_nobody_is_are_counted_by_its_name() -> None:
    pods = (of(created("a", 1), "volcano"), of(created("b", 2), "dovetial"), of(created("c", 3), "dovetial"))
    assert unserved(created("ours", 1), *pods) == [("dovetial", 2), ("volcano", 1)]
    assert unserved(*pods, namespace="other") == []
    assert unserved(*pods, labels="app=x") == []


def test_a_scheduler_that_has_written_a_condition_is_there() -> None:
    pods = (of(created("a", 1), "volcano"), of(created("b", 2), "volcano"))
    assert unserved(*pods, known="a") == []


def test_a_scheduler_has_half_a_minute_but_a_misspelt_name_none() -> None:
    new = replace(b.pod("new"), creation="2026-01-01T11:59:31Z")
    assert unserved(of(new, "volcano")) == []
    assert unserved(of(new, "volcano"), of(created("old", 1), "volcano")) == [("volcano", 2)]
    assert unserved(of(new, "dovetial")) == [("dovetial", 1)]


def test_a_gated_or_ending_pod_waits_for_no_scheduler() -> None:
    gated = replace(created("gated", 1), scheduling_gates=("example.com/quota",))
    assert unserved(of(gated, "dovetial"), of(replace(created("p", 1), is_deleting=True), "dovetial")) == []


def test_the_line_below_the_list() -> None:
    pods = [PendingPod(of(created(name, 1), "dovetial"), None) for name in ("a", "b")]
    (found,) = queue_listing.unserved_pods(pods, NAMES, NOW)
    assert str(found) == (
        "2 pods wait without a scheduler. Dovetail schedules no pod with schedulerName dovetial: it serves dovetail. "
        "Write schedulerName: dovetail; that of a pod that exists cannot be changed, so make the pod anew."
    )


@pytest.mark.parametrize(
    ("kind", "labels", "workload"),
    [
        ("Job", {"batch.kubernetes.io/job-name": "train"}, "Job train"),
        ("Job", {"batch.kubernetes.io/job-name": "t-w-0", "jobset.sigs.k8s.io/jobset-name": "train"}, "JobSet train"),
        ("StatefulSet", {"leaderworkerset.sigs.k8s.io/name": "serve"}, "LeaderWorkerSet serve"),
        ("PyTorchJob", {"training.kubeflow.org/job-name": "tune"}, "PyTorchJob tune"),
        ("RayCluster", {"ray.io/cluster": "ray"}, "RayCluster ray"),
        ("ReplicaSet", {"app": "web"}, ""),
        ("", {"batch.kubernetes.io/job-name": "train"}, ""),
    ],
)
def test_a_gang_is_named_with_the_object_that_a_person_made(kind: str, labels: dict[str, str], workload: str) -> None:
    """A pod without a controller may have any labels."""
    controller = Controller(kind=kind, uid="u") if kind else None
    pods = [
        replace(b.member(created(name, 1), "g"), labels=tuple(sorted(labels.items())), controller=controller)
        for name in ("a", "b")
    ]
    found = queue_listing.listed([PendingPod(pod, None) for pod in pods], NAMES)
    assert [each.workload for each in found] == [workload] * 2
    to = io.StringIO()
    queue_listing.show(found, to, NOW, is_wide=False, namespace="default")
    assert f"  gang/g (2 pods{f' of {workload}' if workload else ''})  " in to.getvalue()
