"""`--add-nodes` beside NodeClaims that are under way: such a node counts as there, and is not asked for twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
TYPE = "node.kubernetes.io/instance-type"
INITIALIZED = {"type": "Initialized", "status": "True"}
SLICES_MISSING = {"type": "Initialized", "status": "Unknown", "reason": "DRADriverPoolsNotPublished"}


def typed(name: str, kind: str) -> m.Manifest:
    found = m.node(name)
    found["metadata"]["labels"] |= {TYPE: kind}
    return found


def node_claim(
    name: str, kind: str, *conditions: m.Manifest, node: str = "", spec: Any = None, **more: Any
) -> m.Manifest:
    status = {"conditions": list(conditions), **({"nodeName": node} if node else {})}
    labels = {TYPE: kind} if kind else {}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels, **more},
        "spec": spec or {"requirements": [], "taints": []},
        "status": status,
    }


def asked(folder: Path, capsys: Capture, *objects: m.Manifest, count: int = 4, pods: int = 1) -> Any:
    """Ask for pods with so many devices; the cluster has one node of type `four`, which is cordoned."""
    cordoned = typed("n1", "four")
    cordoned["spec"] = {"unschedulable": True}
    there = [m.device_class(), m.template("own", count=count), cordoned, m.slice_of("n1", count=4)]
    cluster = m.write_json(folder / "cluster.json", [*there, *objects])
    waiting = [m.pod(f"p{number}", template_name="own") for number in range(pods)]
    file = m.write_yaml(folder / "pods.yaml", *waiting)
    m.run("fit", "-f", file, "--cluster", cluster, "--add-nodes", "-o", "json")
    return json.loads(capsys.readouterr().out)


def placed(found: Any) -> list[str]:
    return [each["node"] for each in found["plan"]["placements"]]


def test_a_claim_without_a_node_counts_as_there(tmp_path: Path, capsys: Capture) -> None:
    found = asked(tmp_path, capsys, node_claim("pool-a", "four"))

    assert (found["starts"], found["nodes"], placed(found)) == (True, [], ["pool-a"])
    assert found["coming"] == [{"nodeClaim": "pool-a", "node": "pool-a", "instanceType": "four"}]


def test_what_it_does_not_serve_is_asked_for(tmp_path: Path, capsys: Capture) -> None:
    found = asked(tmp_path, capsys, node_claim("pool-a", "four"), pods=3)

    assert [(each["name"], each["count"]) for each in found["shapes"]] == [("four", 2)]
    assert sorted(placed(found)) == ["four-new-1", "four-new-2", "pool-a"]


def test_a_node_whose_slices_are_not_there_has_them(tmp_path: Path, capsys: Capture) -> None:
    young = typed("n2", "four")
    young["spec"] = {"taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}
    found = asked(tmp_path, capsys, young, node_claim("pool-a", "four", SLICES_MISSING, node="n2"))

    assert (found["nodes"], placed(found)) == ([], ["n2"])
    assert found["coming"] == [{"nodeClaim": "pool-a", "node": "n2", "instanceType": "four"}]


def test_slices_that_are_there_do_not_come_again(tmp_path: Path, capsys: Capture) -> None:
    young = [typed("n2", "four"), m.slice_of("n2", count=4)]
    found = asked(tmp_path, capsys, *young, node_claim("pool-a", "four", node="n2"), pods=2)
    assert sorted(placed(found)) == ["four-new-1", "n2"]


@pytest.mark.parametrize(
    "claim",
    [
        node_claim("pool-a", "four", INITIALIZED, node="n1"),
        node_claim("pool-a", "four", deletionTimestamp="2026-01-01T00:00:00Z"),
    ],
    ids=["initialized", "being deleted"],
)
def test_what_brings_nothing(tmp_path: Path, capsys: Capture, claim: m.Manifest) -> None:
    found = asked(tmp_path, capsys, claim)
    assert (found["coming"], found["unknownClaims"], len(found["nodes"])) == ([], [], 1)


@pytest.mark.parametrize("kinds", [["four"], ["four", "eight"], ["eight"]], ids=["", "two types", "no node shows it"])
def test_the_type_may_be_in_the_requirements(tmp_path: Path, capsys: Capture, kinds: list[str]) -> None:
    spec = {"requirements": [{"key": TYPE, "operator": "In", "values": kinds}]}
    found = asked(tmp_path, capsys, node_claim("pool-a", "", spec=spec))

    is_known = kinds == ["four"]
    assert (len(found["coming"]), len(found["nodes"])) == ((1, 0) if is_known else (0, 1))
    assert found["unknownClaims"] == ([] if is_known else ["pool-a"])


def test_taints_of_the_claim_keep_pods_away_and_those_of_its_start_do_not(tmp_path: Path, capsys: Capture) -> None:
    starts = {"requirements": [], "startupTaints": [{"key": "cni", "effect": "NoExecute"}]}
    stays = {"requirements": [], "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}
    assert len(asked(tmp_path, capsys, node_claim("pool-a", "four", spec=starts))["nodes"]) == 0
    assert len(asked(tmp_path, capsys, node_claim("pool-a", "four", spec=stays))["nodes"]) == 1


def test_a_node_that_is_not_ready_for_use_shows_no_shape(tmp_path: Path, capsys: Capture) -> None:
    """It has no slices yet: to take it for a node without devices would buy nothing for its kind."""
    found = asked(tmp_path, capsys, typed("n2", "eight"), node_claim("pool-a", "eight", node="n2"))
    assert (found["looked"], found["unknownClaims"], found["coming"]) == (["four"], ["pool-a"], [])


def test_the_answer_says_what_is_under_way(tmp_path: Path, capsys: Capture) -> None:
    asked(tmp_path, capsys, node_claim("pool-a", "four"), node_claim("pool-b", "eight"))
    files = ("-f", tmp_path / "pods.yaml", "--cluster", tmp_path / "cluster.json")
    assert m.run("fit", *files, "--add-nodes") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "No node has to be added: the pod starts on the nodes that there are or that are coming." in told
    assert "1 node counted as there, which Karpenter is making: NodeClaim pool-a." in told
    assert "Not counted: NodeClaim pool-b, which Karpenter is making into nodes." in told
