import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scheduler.observe.metrics import QUEUES, Metrics
from solver.domain import ReasonCode


def test_kube_schedulers_names_and_labels_are_kept() -> None:
    metrics = Metrics()
    metrics.schedule_attempts.labels(result="scheduled", profile="dovetail").inc()
    metrics.attempt_seconds.labels(result="scheduled", profile="dovetail").observe(0.01)
    metrics.sli_seconds.labels(attempts="1").observe(0.1)
    metrics.incoming_pods.labels(queue="active", event="PodAdd").inc()
    names = {
        (sample.name, *sorted(sample.labels))
        for family in text_string_to_metric_families(metrics.exposition()[0].decode())
        for sample in family.samples
    }
    assert {
        ("scheduler_schedule_attempts_total", "profile", "result"),
        ("scheduler_scheduling_attempt_duration_seconds_bucket", "le", "profile", "result"),
        ("scheduler_pod_scheduling_sli_duration_seconds_bucket", "attempts", "le"),
        ("scheduler_pod_scheduling_attempts_bucket", "le"),
        ("scheduler_pending_pods", "queue"),
        ("scheduler_queue_incoming_pods_total", "event", "queue"),
    } <= names


@pytest.mark.parametrize("queue", QUEUES)
def test_every_queue_is_there_from_the_start(queue: str) -> None:
    assert Metrics().registry.get_sample_value("scheduler_pending_pods", {"queue": queue}) == 0


@pytest.mark.parametrize("reason", ReasonCode)
def test_every_reason_is_there_from_the_start(reason: ReasonCode) -> None:
    assert Metrics().registry.get_sample_value("dovetail_unplaced_pods_total", {"reason": reason}) == 0


def test_what_alerts_look_at_is_there_from_the_start() -> None:
    """A counter that appears with its first event has not increased, as Prometheus sees it."""
    rules = yaml.safe_load(Path("deploy/monitoring/alerts.yaml").read_text())["spec"]["groups"][0]["rules"]
    text = Metrics().exposition()[0].decode()
    watched = {name for rule in rules for name in re.findall(r"increase\((\w+)\[", rule["expr"])}
    assert len(watched) >= 3
    assert [name for name in sorted(watched) if f"\n{name}" not in text] == []


def test_when_a_counter_was_made_is_no_series() -> None:
    assert "_created" not in Metrics().exposition()[0].decode()


def test_two_registries_know_nothing_of_each_other() -> None:
    first, second = Metrics(), Metrics()
    first.placed_pods.inc(3)
    assert second.registry.get_sample_value("dovetail_placed_pods_total") == 0


def test_every_series_says_what_it_is() -> None:
    assert all(len(family.documentation) > 15 for family in Metrics().registry.collect())


def test_the_version_that_runs_is_a_series() -> None:
    assert Metrics("1.2.3").registry.get_sample_value("dovetail_build_info", {"version": "1.2.3"}) == 1


def test_open_metrics_is_given_to_a_client_that_asks_for_it() -> None:
    body, content_type = Metrics().exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "series.md"
SUFFIXES = {"counter": "_total"}


def test_every_series_stands_in_the_documentation_as_it_is_served() -> None:
    text = Metrics("1").exposition()[0].decode()
    served = {
        (f"{family.name}{SUFFIXES.get(family.type, '')}", family.documentation)
        for family in text_string_to_metric_families(text)
        if family.name.startswith(("dovetail_", "scheduler_", "leader_")) and not family.name.endswith("_created")
    }
    rows = [line.strip("| ").split(" | ") for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    assert {(row[0].strip("`"), row[-1]) for row in rows} == served
