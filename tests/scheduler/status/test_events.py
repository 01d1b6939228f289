"""Events about pods: one name each, notes within the API's bounds."""

import datetime as dt

from msgspec.structs import replace

from scheduler.kube.encode import EventRecord
from scheduler.status.events import EventFactory
from solver.domain import PodId
from tests.support.builders import device_id, pod

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_the_event_of_a_bound_pod_is_kube_schedulers() -> None:
    event = EventFactory("host").scheduled(pod("p"), "n1", NOW)

    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
    assert event.note == "Successfully assigned default/p to n1"


def test_an_event_is_in_the_name_of_the_pods_scheduler() -> None:
    event = EventFactory("host").scheduled(pod("p"), "n1", NOW)

    assert (event.reporting_controller, event.reporting_instance) == ("dovetail", "dovetail-host")


def test_events_of_one_moment_have_different_names() -> None:
    events = EventFactory("host")

    names = {events.scheduled(pod("p"), "n1", NOW).name for _ in range(10)}

    assert len(names) == 10


def test_a_note_is_no_longer_than_the_api_allows() -> None:
    event = EventFactory("host").failed(pod("p"), "ü" * 2000, NOW)

    assert len(event.note.encode()) <= 1024
    assert event.note.endswith(" ...")


def test_a_duplicate_names_the_device() -> None:
    event = EventFactory("host").device_held_twice(pod("p"), (device_id("gpu-0", "n1"),), NOW)

    assert "gpu.example.com/n1/gpu-0" in event.note


def test_a_pod_with_a_very_long_name_gets_events_with_names_that_fit() -> None:
    assert len(EventFactory("host").scheduled(pod("p" * 253), "n1", NOW).name) <= 253


OTHER = replace(pod("secret-name", priority=9), id=PodId("secret-namespace", "secret-name"), uid="secret-uid")
MINE = pod("mine")


def _said(event: EventRecord) -> str:
    return f"{event.note} {event.related} {event.regarding} {event.name}"


def test_events_name_pods_of_their_own_namespace_only() -> None:
    events = EventFactory("host")
    victim_reads = events.preempted(MINE, OTHER, "n1", NOW)
    preemptor_reads = events.preempting(OTHER, MINE, "n1", NOW)
    assert victim_reads.note == "Preempted by a pod of another namespace on node n1"
    assert preemptor_reads.note == "A pod of another namespace of priority 9 was evicted from node n1 to make room"
    assert "secret" not in _said(victim_reads) + _said(preemptor_reads)

    second = pod("second")
    assert events.preempted(MINE, second, "n1", NOW).note == "Preempted by pod second on node n1"
    assert events.preempted(MINE, second, "n1", NOW).related is not None
    member = replace(second, pod_group="group")
    assert events.preempted(MINE, member, "n1", NOW).note == "Preempted by podgroup group on node n1"
    assert "group" not in _said(events.preempted(MINE, replace(OTHER, pod_group="group"), "n1", NOW))
    assert "Pod default/second of priority" in events.preempting(second, MINE, "n1", NOW).note


def test_without_inventory_events_name_no_node_and_no_device() -> None:
    events = EventFactory("host", tells_inventory=False)
    made = (
        events.preempted(MINE, OTHER, "secret-node", NOW),
        events.preempting(OTHER, MINE, "secret-node", NOW),
        events.device_held_twice(MINE, (device_id("secret-gpu", "secret-node"),), NOW),
    )
    assert all("secret" not in _said(event) for event in made)


def test_a_long_and_hostile_text_is_cut_and_escaped() -> None:
    note = EventFactory("host").failed(MINE, "\x1b[2J\u202e" + "ü" * 5000, NOW).note
    assert len(note.encode()) <= 1024
    assert note.isprintable()
