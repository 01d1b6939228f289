"""`make measure ARGS=questions`: the generated cluster, and that the table of the docs asks the same questions."""

from collections import Counter
from pathlib import Path

import pytest

from e2e.questions import busy_cluster
from e2e.questions.__main__ import LOCAL_QUESTIONS, QUESTIONS
from scheduler.cli.main import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


@pytest.mark.parametrize("node", range(14))
def test_pods_hold_some_of_a_node_and_never_all(node: int) -> None:
    allocations = [allocation for _, _, allocation in busy_cluster.holders(node)]
    held = Counter(result["device"] for each in allocations for result in each["devices"]["results"])
    assert set(held.values()) == {1}
    assert held.total() == node % 7 + 1


def test_a_running_pod_and_its_claim_belong_together() -> None:
    for pod, claim, allocation in busy_cluster.holders(6):
        assert pod["metadata"]["name"] == claim["metadata"]["name"]
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == len(allocation["devices"]["results"])


def test_the_page_has_the_seconds_of_each_question() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {each.command.split()[0] for each in QUESTIONS} <= set(COMMANDS)
    missing = [
        each.text for each in QUESTIONS if f"| {each.text} | `{each.command.format(file='pod.yaml')}` |" not in page
    ]
    missing += [each.text for each in LOCAL_QUESTIONS if f"| {each.text} | `{each.command}` |" not in page]
    assert missing == []
