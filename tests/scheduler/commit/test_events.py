"""Events about pods: one name each, notes within the API's bounds."""

import datetime as dt

from scheduler.commit.telling.events import Narrator
from tests.support.builders import device_id, pod

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_a_bound_pod_is_told_as_kube_scheduler_does() -> None:
    event = Narrator("host").scheduled(pod("p"), "n1", NOW)

    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
    assert event.note == "Successfully assigned default/p to n1"


def test_an_event_is_in_the_name_of_the_pods_scheduler() -> None:
    event = Narrator("host").scheduled(pod("p"), "n1", NOW)

    assert (event.reporting_controller, event.reporting_instance) == ("dovetail", "dovetail-host")


def test_events_of_one_moment_have_different_names() -> None:
    narrator = Narrator("host")

    names = {narrator.scheduled(pod("p"), "n1", NOW).name for _ in range(10)}

    assert len(names) == 10


def test_a_note_is_no_longer_than_the_api_allows() -> None:
    event = Narrator("host").failed(pod("p"), "ü" * 2000, NOW)

    assert len(event.note.encode()) <= 1024
    assert event.note.endswith(" ...")


def test_a_duplicate_names_the_device() -> None:
    event = Narrator("host").yielded(pod("p"), (device_id("gpu-0", "n1"),), NOW)

    assert "gpu.example.com/n1/gpu-0" in event.note


def test_a_pod_with_a_very_long_name_gets_events_with_names_that_fit() -> None:
    assert len(Narrator("host").scheduled(pod("p" * 253), "n1", NOW).name) <= 253
