"""`dovetail repair plan` without a plan says which pods may not be moved, and why."""

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.simulation.moves import moves_output
from solver.domain import PodId, Relocation, Staying
from tests.scheduler.cli.test_repair_plan import runs
from tests.scheduler.simulation.test_list_table import terminal
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]


def case(folder: Path, pod: m.Manifest, claim: m.Manifest, *more: m.Manifest) -> Path:
    """A node of two devices, one held by a pod, another node with one, and a pod that wants two of one node."""
    objects: list[Any] = [m.device_class(), m.template("two", count=2), m.pod("large", template_name="two")]
    objects += [m.node("n1"), m.slice_of("n1"), m.node("n2"), m.slice_of("n2", count=1), pod, claim, *more]
    return m.write_json(folder / "cluster.json", objects)


def budget(name: str, allowed: int) -> m.Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }


def changed(**metadata: Any) -> tuple[m.Manifest, m.Manifest]:
    pod, claim = runs("small", "n1", "gpu-0")
    pod["metadata"] |= metadata
    return pod, claim


def stays(path: Path, capsys: Capture) -> tuple[int, list[dict[str, str]]]:
    status = m.run("repair", "plan", "--for", "pod", "large", "-f", path, "-o", "json")
    return status, json.loads(capsys.readouterr().out)["staying"]


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"ownerReferences": []}, "it has no controller that would make it anew"),
        (
            {"annotations": {"dovetail.dev/preemptible": "false"}},
            'its annotation dovetail.dev/preemptible is "false"',
        ),
        ({"labels": {"dovetail.dev/gang": "g"}}, "it belongs to gang default/g"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "it is being deleted already"),
    ],
    ids=["no controller", "annotated", "gang", "leaving"],
)
def test_the_pods_own_facts(metadata: dict[str, Any], reason: str, tmp_path: Path, capsys: Capture) -> None:
    found = stays(case(tmp_path, *changed(**metadata)), capsys)

    assert found == (1, [{"pod": "default/small", "node": "n1", "reason": reason}])


def test_another_schedulers_pod_and_one_of_higher_priority(tmp_path: Path, capsys: Capture) -> None:
    pod, claim = changed()
    pod["spec"]["schedulerName"] = "default-scheduler"
    assert [each["reason"] for each in stays(case(tmp_path, pod, claim), capsys)[1]] == [
        "another scheduler placed it: default-scheduler"
    ]
    pod["spec"] |= {"schedulerName": "dovetail", "priority": 7}
    assert [each["reason"] for each in stays(case(tmp_path, pod, claim), capsys)[1]] == ["its priority 7 is above 0"]


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        ([budget("web", 0)], "PodDisruptionBudget web allows no disruption now"),
        (
            [budget("a", 1), budget("b", 1)],
            "several PodDisruptionBudgets select it, and the eviction is refused then: a, b",
        ),
        (
            [{**budget("web", 1), "metadata": {"name": "web", "generation": 2}}],
            "PodDisruptionBudget web has changed and its status has not followed yet",
        ),
    ],
    ids=["used up", "several", "stale"],
)
def test_disruption_budgets(budgets: list[m.Manifest], reason: str, tmp_path: Path, capsys: Capture) -> None:
    found = stays(case(tmp_path, *changed(labels={"app": "web"}), *budgets), capsys)

    assert [each["reason"] for each in found[1]] == [reason]


def test_the_table_groups_pods_that_stay_for_the_same_reason(tmp_path: Path, capsys: Capture) -> None:
    pod, claim = changed(ownerReferences=[])
    other, held = runs("other", "n1", "gpu-1")
    other["metadata"]["ownerReferences"] = []
    m.run("repair", "plan", "--for", "pod", "large", "-f", case(tmp_path, pod, claim, other, held))

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    at = lines.index("STAYS NODE BECAUSE")
    assert lines[at + 1 : at + 3] == [
        "default/other n1 it has no controller that would make it anew",
        "default/small n1 it has no controller that would make it anew",
    ]
    assert lines[-1] == "No plan: no moves make enough room (proven)."


def test_only_nodes_that_the_pod_could_be_on_are_told_of(tmp_path: Path, capsys: Capture) -> None:
    path = case(tmp_path, *changed(ownerReferences=[]))
    objects = json.loads(path.read_text())["items"]
    large = next(each for each in objects if each["metadata"]["name"] == "large")
    large["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}

    assert stays(m.write_json(path, objects), capsys) == (1, [])


def test_nodes_that_could_not_serve_the_pod_if_they_were_empty_are_not_told_of(tmp_path: Path, capsys: Capture) -> None:
    pod, claim = changed(ownerReferences=[])
    other, held = runs("other", "n2", "gpu-0")
    other["metadata"]["ownerReferences"] = []

    _, found = stays(case(tmp_path, pod, claim, other, held), capsys)

    assert [each["pod"] for each in found] == ["default/small"]


def test_a_plan_says_nothing_of_them(tmp_path: Path, capsys: Capture) -> None:
    assert stays(case(tmp_path, *changed()), capsys) == (0, [])


def emptied(path: Path, capsys: Capture, *words: str) -> tuple[int, list[str]]:
    status = m.run("repair", "plan", "--for", "node/n1", "-f", path, *words)
    return status, capsys.readouterr().out.splitlines()


def test_a_node_of_which_a_pod_stays_is_not_emptied(tmp_path: Path, capsys: Capture) -> None:
    pod, claim = changed(ownerReferences=[])
    path = case(tmp_path, pod, claim, *runs("other", "n1", "gpu-1"))

    status, lines = emptied(path, capsys)

    assert (status, lines[0]) == (1, "node n1 cannot be emptied: 1 of 2 pods can move, 1 stays.")
    assert any(line.startswith("1 ") and "default/other" in line for line in lines)
    status, lines = emptied(path, capsys, "-o", "json")
    answer = json.loads("\n".join(lines))
    assert (status, answer["found"], answer["reached"]) == (1, True, False)


def test_where_no_pod_can_leave_the_sentence_names_one_and_why(tmp_path: Path, capsys: Capture) -> None:
    status, lines = emptied(case(tmp_path, *changed(ownerReferences=[])), capsys)

    assert (status, lines[0]) == (1, "node n1 cannot be emptied: 0 of 1 pod can move, 1 stays.")
    assert lines[-2:] == [
        "No plan: default/small stays: it has no controller that would make it anew (proven).",
        "If it is lost all the same: 1 pod would be gone for good.",
    ]


def test_the_sentence_counts_each_pod_that_stays_under_its_own_reason(tmp_path: Path, capsys: Capture) -> None:
    pod, claim = changed(ownerReferences=[])
    beside, held = runs("beside", "n2", "gpu-0")
    beside["metadata"]["ownerReferences"] = []
    objects = [m.device_class(), m.node("n1"), m.slice_of("n1", count=3), m.node("n2"), m.slice_of("n2", count=1)]
    objects += [*runs("a", "n1", "gpu-1"), *runs("b", "n1", "gpu-2"), pod, claim, beside, held]

    status, lines = emptied(m.write_json(tmp_path / "cluster.json", objects), capsys)

    assert (status, lines[0]) == (1, "node n1 cannot be emptied: 0 of 3 pods can move, 3 stay.")
    assert " ".join(lines).endswith(
        "No plan: default/small stays: it has no controller that would make it anew; 2 for other reasons; "
        "1 other pod may not make room (proven). "
        "If it is lost all the same: the successors of 2 pods would wait, 1 pod would be gone for good."
    )


def test_pods_that_share_a_claim_go_at_once(tmp_path: Path, capsys: Capture) -> None:
    first, claim = runs("first", "n1", "gpu-0")
    second = json.loads(json.dumps(first))
    second["metadata"] |= {"name": "second", "uid": "uid-second"}
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "second", "uid": "uid-second"})

    _, lines = emptied(case(tmp_path, first, claim, second), capsys)

    assert any("go at once, as they share default/first-gpu." in line for line in lines)
    assert not any("cycle" in line for line in lines)


def test_names_are_whole_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Relocation(
        is_found=False,
        staying=tuple(
            Staying(
                pod=PodId("default", f"a-long-name-of-a-training-{each}"),
                node=f"node-with-a-name-{each}",
                reason="no controller",
            )
            for each in range(2)
        ),
    )
    to = terminal(monkeypatch, 80)
    moves_output.show_moves(found, to)
    lines = to.getvalue().splitlines()
    for each in range(2):
        (row,) = [line for line in lines if f"default/a-long-name-of-a-training-{each}" in line]
        assert f"node-with-a-name-{each}" in row
