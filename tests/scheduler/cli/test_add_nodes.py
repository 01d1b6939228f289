"""`--add-nodes`: shapes from a cluster, from NodePools and from a file, and what is wrong with them."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import house
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"


def typed(name: str, kind: str, zone: str = "a", **labels: str) -> m.Manifest:
    found = m.node(name)
    found["metadata"]["labels"] |= {TYPE: kind, ZONE: zone, **labels}
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A node of type `two` with two free devices, and one of type `four` with four, all free."""
    objects = [m.device_class(), m.template(), typed("n1", "two"), m.slice_of("n1"), typed("n2", "four")]
    return m.write_json(tmp_path / "cluster.json", [*objects, m.slice_of("n2", count=4)])


def gang(size: int, count: int) -> list[m.Manifest]:
    pods = [m.pod(f"p{number}", template_name="own") for number in range(size)]
    return [m.template("own", count=count), *pods]


def add_nodes(
    folder: Path, cluster: Path, capsys: Capture, *manifests: m.Manifest, shapes: Any = None
) -> tuple[int, Any]:
    file, given = m.write_yaml(folder / "pods.yaml", *manifests), folder / "shapes.yaml"
    given.write_text(yaml.safe_dump(shapes), encoding="utf-8")
    asked = ("--shapes", given) if shapes is not None else ()
    status = m.run("fit", "-f", file, "--cluster", cluster, "--add-nodes", "-o", "json", *asked)
    printed = capsys.readouterr()
    return status, json.loads(printed.out) if printed.out else printed.err


def counts(found: Any) -> dict[str, int]:
    return {each["name"]: each["count"] for each in found["shapes"]}


def test_the_fewest_nodes_of_the_cluster_s_shapes(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    status, found = add_nodes(tmp_path, cluster, capsys, *gang(5, 2))

    assert (status, counts(found)) == (0, {"four": 1})
    assert (found["price"], found["leastNodes"], found["proven"]) == (None, 1, True)
    assert {each["node"] for each in found["plan"]["placements"]} == {"n1", "n2", "four-new-1"}


def test_no_node_where_all_start(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    status, found = add_nodes(tmp_path, cluster, capsys, *gang(3, 2))
    assert (status, found["nodes"], found["starts"]) == (0, [], True)


def test_prices_decide(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    shapes = {"shapes": [{"name": "two", "price": 1.5}, {"name": "four", "price": 3.25}]}
    status, found = add_nodes(tmp_path, cluster, capsys, *gang(5, 2), shapes=shapes)

    assert (status, counts(found), found["price"], found["leastPrice"]) == (0, {"two": 2}, "3.00", "3.00")


def test_a_shape_of_a_file_has_its_own_devices(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    eight = {
        "name": "eight",
        "node": {"metadata": {"labels": {TYPE: "eight"}}, "status": {"allocatable": {"cpu": 16, "pods": 20}}},
        "slices": [m.slice_of("other", count=8)["spec"]],
    }
    status, found = add_nodes(tmp_path, cluster, capsys, *gang(2, 8), shapes={"shapes": [eight]})
    assert (status, counts(found)) == (0, {"eight": 2})


def test_what_no_shape_helps_says_why_of_shapes(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    status, found = add_nodes(tmp_path, cluster, capsys, *gang(1, 5))

    assert (status, found["starts"], found["nodes"], found["complete"]) == (1, False, [], True)
    (waiting,) = found["plan"]["unplaced"]
    assert waiting["reasons"][0]["message"].startswith("2 shapes: ")


def test_pods_that_come_before_get_nodes_too(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    """They would take the new nodes; pods of a lower priority do not count."""
    before = [m.pod(f"w{number}", template_name="four", priority=7) for number in range(2)]
    after = [m.pod(f"z{number}", template_name="four", priority=-1) for number in range(2)]
    objects = [*json.loads(cluster.read_text())["items"], m.template("four", count=4), *before, *after]
    both = m.write_json(tmp_path / "both.json", objects)

    _, found = add_nodes(tmp_path, both, capsys, *gang(1, 4))

    assert counts(found) == {"four": 2}
    assert [each["pod"] for each in found["plan"]["placements"]] == ["default/p0"]
    assert len(found["plan"]["others"]["placements"]) == 2


def with_before(tmp_path: Path, cluster: Path, *counts: int) -> Path:
    """The cluster with waiting pods of a higher priority that ask for some devices each."""
    before = [m.pod(f"w{number}", template_name=f"ask{count}", priority=7) for number, count in enumerate(counts)]
    asked = [m.template(f"ask{count}", count=count) for count in sorted(set(counts))]
    return m.write_json(tmp_path / "both.json", [*json.loads(cluster.read_text())["items"], *asked, *before])


def test_no_node_where_only_pods_that_come_before_need_one(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    """Of two pods for four devices one starts now, and the pod of the file takes the two devices that are left."""
    both = with_before(tmp_path, cluster, 4, 4)
    file = m.write_yaml(tmp_path / "pods.yaml", *gang(1, 2))

    assert m.run("fit", "-f", file, "--cluster", both, "--add-nodes") == 0
    table = capsys.readouterr().out
    _, found = add_nodes(tmp_path, both, capsys, *gang(1, 2))

    assert table.startswith("No node has to be added: the pod starts on the nodes that there are.\n")
    assert "come first" not in table
    assert (found["starts"], found["nodes"], found["shapes"]) == (True, [], [])
    assert [each["node"] for each in found["plan"]["placements"]] == ["n1"]


def test_nodes_for_pods_that_come_before_are_told_apart(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    """Both devices of n1 go to one pod of the file; the other needs a new node, and so does w1 alone."""
    both = with_before(tmp_path, cluster, 4, 4)
    file = m.write_yaml(tmp_path / "pods.yaml", *gang(2, 2))
    shapes = {"shapes": [{"name": "two", "price": 1}, {"name": "four", "price": 3}]}

    _, found = add_nodes(tmp_path, both, capsys, *gang(2, 2), shapes=shapes)
    assert m.run("fit", "-f", file, "--cluster", both, "--add-nodes", "--shapes", tmp_path / "shapes.yaml") == 0

    assert {each["shape"]: each["needed"] for each in found["nodes"]} == {"two": True, "four": False}
    table = " ".join(capsys.readouterr().out.split())
    assert "Add 2 nodes for 4.00: 1 × two, 1 × four. Then both pods would start; no cheaper nodes do." in table
    assert "These pods start without 1 × four of them, for pods that come first." in table


def test_a_node_that_pods_before_would_take_anyway_is_needed(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    both = with_before(tmp_path, cluster, 4, 4)
    _, found = add_nodes(tmp_path, both, capsys, *gang(1, 4))
    assert [each["needed"] for each in found["nodes"]] == [True, True], "w1 would take the only new node"


def test_what_would_fit_with_new_nodes_is_not_said_to_fit_now(tmp_path: Path, capsys: Capture) -> None:
    """No device is free: fewer fit on a new node only."""
    full = [m.device_class(), typed("n1", "two"), m.slice_of("n1"), m.template("all", count=2)]
    both = m.write_json(tmp_path / "full.json", [*full, m.pod("w", template_name="all", priority=7)])

    _, found = add_nodes(tmp_path, both, capsys, *gang(1, 5))

    ((message, *_),) = reasons(found).values()
    assert "2 of 5 would fit with new nodes; " in message
    assert "now" not in message


def pool(name: str, *requirements: tuple[str, str, list[str]], **spec: Any) -> m.Manifest:
    listed = [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]
    template = {"metadata": {"labels": {"team": "ml"}}, "spec": {"requirements": listed, "taints": []}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def test_a_node_pool_makes_nodes_of_types_that_are_known(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    pools = [
        pool("gpus", (TYPE, "In", ["four"]), (ZONE, "In", ["b", "c"])),
        pool("unseen", (TYPE, "In", ["eight"])),
    ]
    objects = [*json.loads(cluster.read_text())["items"], *pools]
    both = m.write_json(tmp_path / "both.json", objects)
    selecting = m.pod("p", template_name="own", nodeSelector={"team": "ml", ZONE: "c"})

    status, found = add_nodes(tmp_path, both, capsys, m.template("own", count=4), selecting)

    assert (status, counts(found), found["unknownPools"]) == (0, {"gpus-four-c": 1}, ["unseen"])


def test_a_node_pool_s_limits_hold(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    limited = pool("gpus", (TYPE, "In", ["four"]), limits={"cpu": "20", "nodes": "9"})
    limited["status"] = {"resources": {"cpu": "1"}}
    objects = [*json.loads(cluster.read_text())["items"], limited]
    both = m.write_json(tmp_path / "both.json", objects)
    pods = [m.pod(f"p{number}", template_name="own", nodeSelector={"team": "ml"}) for number in range(3)]

    status, found = add_nodes(tmp_path, both, capsys, m.template("own", count=4), *pods)

    assert (status, counts(found)) == (1, {"gpus-four-a": 2}), "19 cpus are left, and a node has 8"


def test_a_node_pool_s_limit_is_about_its_shapes_together(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    """Each type alone would have three nodes. The NodeClaim counts twelve cpus of a node of which pods have eight."""
    limited = pool("gpus", (TYPE, "In", ["two", "four"]), limits={"cpu": "34", "memory": "1Pi"})
    limited["status"] = {"resources": {"cpu": "1"}}
    gone = claim("gone", "gpus", "four", cpu="12")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = [
        *json.loads(cluster.read_text())["items"],
        limited,
        gone,
        claim("c", "gpus", "four", cpu="12", memory="1Gi"),
    ]
    both = m.write_json(tmp_path / "both.json", objects)
    pods = [m.pod(f"p{number}", template_name="own", nodeSelector={"team": "ml"}) for number in range(5)]

    status, found = add_nodes(tmp_path, both, capsys, m.template("own", count=2), *pods)

    assert status == 1
    assert counts(found) == {"gpus-four-a": 1, "gpus-two-a": 1}, "22 cpus are left: 12 of one, and 8 of the other"
    assert (found["proven"], found["complete"]) == (True, True)
    assert [(each["reasons"][0]["code"], each["reasons"][0]["message"]) for each in found["plan"]["unplaced"]] == [
        (
            "NodeLimit",
            'NodePool gpus adds no more nodes for it: its limit "cpu: 34" leaves 2, and a node has 8',
        )
    ] * 2


def claim(name: str, pool: str, kind: str, **capacity: str) -> m.Manifest:
    """A NodeClaim whose node is not known here: it is one of those that count in the pool."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": pool, TYPE: kind}},
        "status": {"capacity": capacity, "conditions": [{"type": "Initialized", "status": "True"}]},
    }


def test_a_pool_at_its_limit_says_so(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    limited = pool("gpus", (TYPE, "In", ["four"]), limits={"nodes": 1})
    objects = [*json.loads(cluster.read_text())["items"], limited, claim("c", "gpus", "four", cpu="12")]
    both = m.write_json(tmp_path / "both.json", objects)
    pods = [m.pod(f"p{number}", template_name="own", nodeSelector={"team": "ml"}) for number in range(2)]
    file = m.write_yaml(tmp_path / "pods.yaml", m.template("own", count=4), *pods)

    assert m.run("fit", "-f", file, "--cluster", both, "--add-nodes") == 1

    printed = " ".join(capsys.readouterr().out.split())
    assert "No more nodes can be had: 0 of 2 pods would start on those that exist." in printed
    assert 'NodePool gpus adds no more nodes for it: its limit "nodes: 1" leaves 0' in printed


def test_the_most_of_a_shape_is_named(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    shapes = {"shapes": [{"name": "four", "most": 1}]}
    status, found = add_nodes(tmp_path, cluster, capsys, *gang(3, 4), shapes=shapes)
    assert (status, counts(found)) == (1, {"four": 1})
    (waiting,) = found["plan"]["unplaced"]
    assert waiting["reasons"][0]["message"] == ('shape four adds no more nodes for it: its limit "nodes: 1" leaves 0')


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ([], "shapes: write one list"),
        ({"shapes": []}, "shapes: is empty: write at least one shape"),
        ({"shapes": ["x"]}, "(shapes[0]): is no mapping"),
        ({"shapes": [{"name": "two", "cost": 1}]}, "(shape two): cost: unknown field: write one of name, price"),
        ({"shapes": [{"name": "Two!"}]}, "(shape Two!): name: write a name of at most 63"),
        ({"shapes": [{"name": "two", "price": -1}]}, "(shape two): price: '-1': write a number from 0"),
        ({"shapes": [{"name": "two", "price": True}]}, "(shape two): price: 'True': write a number"),
        (
            {"shapes": [{"name": "two", "price": 1}, {"name": "four"}]},
            "(shape four): price: missing, and shape two has",
        ),
        ({"shapes": [{"name": "two"}, {"name": "two"}]}, "(shape two): name: stands 2 times"),
        ({"shapes": [{"name": "two", "most": -1}]}, "(shape two): most: write how many"),
        ({"shapes": [{"name": "six"}]}, "(shape six): node: missing, and the cluster has no shape of this name, only"),
        ({"shapes": [{"name": "two", "slices": []}]}, "(shape two): slices: without `node`"),
        ({"shapes": [{"name": "x", "node": {}}]}, "(shape x): node.status.allocatable: missing"),
        (
            {"shapes": [{"name": "x", "node": {"status": {"allocatable": {"cpu": "many"}}}}]},
            "(shape x): node.status.allocatable",
        ),
        (
            {"shapes": [{"name": "x", "node": {"status": {"allocatable": {"cpu": 1}}}, "slices": [{"devices": 3}]}]},
            "(shape x): slices[0].spec.",
        ),
    ],
)
def test_a_mistake_names_file_shape_and_field(
    tmp_path: Path, cluster: Path, capsys: Capture, shapes: Any, said: str
) -> None:
    status, error = add_nodes(tmp_path, cluster, capsys, *gang(1, 1), shapes=shapes)
    assert status == 2
    assert f"{tmp_path / 'shapes.yaml'}" in error
    assert said in error, error


def test_options_that_do_not_go_together(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    file = m.write_yaml(tmp_path / "pods.yaml", *gang(1, 1))
    assert m.run("fit", "-f", file, "--cluster", cluster, "--shapes", file) == 2
    assert m.run("fit", "-f", file, "--cluster", cluster, "--add-nodes", "--count", "3") == 2
    printed = capsys.readouterr()
    assert "--shapes FILE: add --add-nodes" in printed.err
    assert "--count cannot be with --add-nodes" in printed.err


def test_the_table_fits_80_columns(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    file = m.write_yaml(tmp_path / "pods.yaml", *gang(5, 2))
    assert m.run("fit", "-f", file, "--cluster", cluster, "--add-nodes") == 0
    *table, summary, end = capsys.readouterr().out.split("\n")
    assert "Add 1 node: 1 × four. Then all 5 pods would start; fewer nodes do not." in table
    assert max(map(len, table)) <= 80
    assert summary.startswith("5 of 5 pods placed on 3 nodes with 10 devices; proven to be the best plan, ")
    assert end == ""


def test_the_shapes_of_the_guide_are_read(tmp_path: Path, capsys: Capture) -> None:
    """docs/simulate.md has a file of shapes, one of a cluster and one of its own."""
    page = (house.ROOT / "docs" / "simulate.md").read_text()
    block = page.partition("    shapes:\n")[2].partition("\n## ")[0]
    shapes = yaml.safe_load("shapes:\n" + textwrap.dedent(block))
    objects = [m.device_class(), typed("n1", "p5.48xlarge"), m.slice_of("n1")]
    cluster = m.write_json(tmp_path / "cluster.json", objects)
    request = {"name": "gpu", "exactly": {"deviceClassName": "l4", "count": 2}}
    template = {**m.template("own"), "spec": {"spec": {"devices": {"requests": [request]}}}}
    l4 = {**m.device_class(), "metadata": {"name": "l4"}}
    l4["spec"]["selectors"] = [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]
    pod = m.pod("p", template_name="own", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])

    status, found = add_nodes(tmp_path, cluster, capsys, l4, template, pod, shapes=shapes)

    assert (status, counts(found), found["price"]) == (0, {"g6.12xlarge": 1}, "4.6016"), found


BARE = {"name": "cpu", "node": {"status": {"allocatable": {"cpu": 16, "pods": 20}}}}


def reasons(found: Any) -> dict[str, list[str]]:
    return {each["pod"]: [one["message"] for one in each["reasons"]] for each in found["plan"]["unplaced"]}


def test_a_pod_that_fits_on_a_node_which_exists_and_on_no_shape_says_so(
    tmp_path: Path, cluster: Path, capsys: Capture
) -> None:
    """Two devices and four are free: one pod has no place, and it competes for nodes with the others."""
    status, found = add_nodes(tmp_path, cluster, capsys, *gang(4, 2), shapes={"shapes": [BARE]})

    assert (status, found["complete"]) == (1, True)
    ((first, *of_shapes),) = reasons(found).values()
    assert first == "no shape takes it, and on the nodes that there are it has no place beside the pods that start"
    assert len(of_shapes) == 1
    assert of_shapes[0].startswith("1 shape: request gpu: ")


def test_a_gang_that_the_nodes_there_are_too_few_for_and_that_no_shape_helps_says_so(
    tmp_path: Path, cluster: Path, capsys: Capture
) -> None:
    template, *pods = gang(4, 2)
    for pod in pods:
        pod["metadata"]["labels"] = {"dovetail.dev/gang": "g"}
        pod["metadata"]["annotations"] = {"dovetail.dev/gang-minimum": "4"}
    helped = m.pod("p4", nodeSelector={"cpu": "only"})
    helped["metadata"]["labels"] = {"dovetail.dev/gang": "g"}
    helped["metadata"]["annotations"] = {"dovetail.dev/gang-minimum": "4"}
    only = {**BARE, "node": {**BARE["node"], "metadata": {"labels": {"cpu": "only"}}}}  # type: ignore[dict-item]

    _, found = add_nodes(tmp_path, cluster, capsys, template, *pods, shapes={"shapes": [BARE]})
    assert {each[0] for each in reasons(found).values()} == {
        "no shape takes it, and the nodes that there are have no place for all pods of its gang"
    }
    assert all(each[1].startswith("1 shape: request gpu: ") for each in reasons(found).values())

    five = [*pods[:4], helped]
    for pod in five:
        pod["metadata"]["annotations"] = {"dovetail.dev/gang-minimum": "5"}
    _, found = add_nodes(tmp_path, cluster, capsys, template, *five, shapes={"shapes": [only]})
    assert reasons(found)["default/p4"] == ["other pods of its gang cannot start on nodes of any shape"]
