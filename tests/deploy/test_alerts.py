"""Every alert fires in one case and not in another, is about series that exist, and has a paragraph of the runbook."""

import re
from typing import Any

import yaml

from e2e import alerts
from scheduler.observe.metrics import Metrics
from tests.support import house

RULES = {rule["alert"]: rule for group in alerts.rules() for rule in group["rules"]}
CASES: list[dict[str, Any]] = yaml.safe_load(alerts.CASES.read_text(encoding="utf-8"))["tests"]


def outcomes(*, fires: bool) -> list[str]:
    tests = [test for case in CASES for test in case["alert_rule_test"]]
    return [test["alertname"] for test in tests if bool(test["exp_alerts"]) == fires]


def test_every_alert_fires_in_one_case_and_stays_quiet_in_another() -> None:
    assert outcomes(fires=True) == outcomes(fires=False) == list(RULES)


def test_alerts_are_about_series_that_are_served() -> None:
    exported = Metrics().exposition()[0].decode()
    for name, rule in RULES.items():
        named = re.findall(r"\b(?:dovetail|scheduler|leader|process)_[a-z_]+", rule["expr"])
        assert named, name
        assert [each for each in named if f"# HELP {each} " not in exported] == []


def test_cases_use_series_that_are_served() -> None:
    exported = Metrics().exposition()[0].decode()
    series = {re.split(r"[{ ]", each["series"])[0] for case in CASES for each in case["input_series"]} - {"up"}
    assert [each for each in sorted(series) if f"# HELP {each} " not in exported] == []


def test_every_alert_has_a_paragraph_of_the_runbook() -> None:
    text = (house.ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    assert sorted(headings) == sorted(RULES)
    for name, rule in RULES.items():
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"


def test_the_page_of_series_lists_every_alert() -> None:
    text = (house.ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(Dovetail\w+)\]", text, re.MULTILINE)
    assert sorted(listed) == sorted(RULES)
