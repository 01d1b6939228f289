"""Real nodes in a chaos run: what is demanded of objects, what is done to nodes, and what their judge finds."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.audit.reading import Finding, Json
from e2e.chaos import __main__ as command
from e2e.chaos.cluster import GPU_NODES, Cluster, disk
from e2e.chaos.disturbances import Disturbances
from e2e.chaos.for_kubelets import DISK, for_kubelets
from e2e.chaos.hostile_tenant import HostileTenant
from e2e.chaos.node_judge import LASTING_SECONDS, START_SECONDS, NodeJudge, still_prepared
from e2e.chaos.real_nodes import RealNodes
from e2e.controlplane.kubelet import RUN_SECONDS
from e2e.controlplane.processes import ComponentError
from e2e.nodes import image
from e2e.nodes.node import Node
from e2e.nodes.records import Call, PreparedDevice

NOW = datetime(2026, 11, 28, tzinfo=UTC)
DRIVER = "gpu-0/gpu.nvidia.com"


@pytest.fixture
def judge() -> NodeJudge:
    return NodeJudge()


def call(what: str, claim: str, *devices: str, error: str = "") -> Call:
    prepared = tuple(PreparedDevice("r", "gpu-0", each) for each in devices)
    return Call(time=NOW, call=what, uid=claim, namespace="ns", name=claim, devices=prepared, error=error)


# what is demanded of objects


def pod_of(*, grace: int | None = 0, annotations: Json | None = None, picture: str = "example.com/none") -> Json:
    spec: Json = {"containers": [{"name": "main", "image": picture}]}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return {"kind": "Pod", "metadata": {"name": "p", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize(("grace", "expected"), [(0, 1), (-3, 1), (3, 3), (None, None)])
def test_no_pod_is_without_grace(grace: int | None, expected: int | None) -> None:
    assert for_kubelets(pod_of(grace=grace))["spec"].get("terminationGracePeriodSeconds") == expected


def test_a_pod_that_says_how_long_it_runs_has_a_container_that_ends_then() -> None:
    spec = for_kubelets(pod_of(annotations={RUN_SECONDS: "8"}))["spec"]
    assert spec["restartPolicy"] == "OnFailure"
    assert spec["containers"] == [{"name": "main", "image": image.NAME, "args": ["-after=8"]}]


def test_another_pod_runs_for_ever_and_keeps_an_image_of_its_own() -> None:
    assert for_kubelets(pod_of())["spec"]["containers"] == [{"name": "main", "image": image.NAME}]
    assert for_kubelets(pod_of(picture="x"))["spec"]["containers"] == [{"name": "main", "image": "x"}]


def test_volumes_are_in_the_folder_that_nodes_have() -> None:
    volume = for_kubelets(disk(7))
    assert volume["spec"]["local"] == {"path": DISK}
    assert volume["spec"]["nodeAffinity"] == disk(7)["spec"]["nodeAffinity"]


class Recorded(Cluster):
    """A cluster that takes everything and answers with pods and slices that it was given."""

    def __init__(self, *real: str, pods: Sequence[Json] = ()) -> None:
        self.fleet = Cluster(None, ()).fleet  # type: ignore[arg-type]  # nothing is asked of the plane
        self.real = frozenset(real)
        self.log: list[str] = []
        self.bodies: list[Json] = []
        self._pods = list(pods)

    def pods(self) -> list[Json]:
        return self._pods

    def listed(self, path: str) -> list[Json]:
        return [{"metadata": {"name": "its-slice"}}] if "resourceslices" in path else []

    def request(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        del content
        forced = " at once" if body == {"gracePeriodSeconds": 0} else ""
        self.log.append(f"{method} {path.rpartition('/')[2]}{forced}")
        self.bodies.append(body)
        return None if method == "GET" else {}


def bound(name: str, node: str = "") -> Json:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"namespace": "team-0", "name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("real", "node", "is_forced"),
    [
        pytest.param((), "gpu-0", True, id="without real nodes"),
        pytest.param((), "", True, id="without real nodes, not bound"),
        pytest.param(("gpu-0",), "gpu-1", True, id="on a node of the stand-in"),
        pytest.param(("gpu-0",), "gpu-0", False, id="on a real node"),
        pytest.param(("gpu-0",), "", False, id="it may be bound to a real node by now"),
    ],
)
def test_no_pod_of_a_real_node_is_deleted_at_once(real: tuple[str, ...], node: str, is_forced: bool) -> None:  # noqa: FBT001 - a column of the table
    cluster = Recorded(*real)
    cluster.delete_pod(bound("p", node), at_once=True)
    assert cluster.log == [f"DELETE p{' at once' if is_forced else ''}"]


def test_nor_are_a_hostile_tenants_which_have_a_grace() -> None:
    cluster = Recorded("gpu-0")
    tenant = HostileTenant(cluster, seed=11)
    for number in range(500):
        tenant.create(number)
    pods = [each for each in cluster.bodies if each["kind"] == "Pod"]
    assert len(pods) > 50
    assert 0 not in {each["spec"].get("terminationGracePeriodSeconds") for each in pods}
    cluster.delete_at_once("pods/p")
    assert cluster.log[-1] == "DELETE p"


def test_kubelets_and_drivers_write_their_nodes_and_slices_themselves() -> None:
    cluster = Recorded("gpu-0", "gpu-1")
    cluster.build()
    made = {each["metadata"]["name"] for each in cluster.bodies if each["kind"] in {"Node", "ResourceSlice"}}
    assert {name for name in made if name.startswith("gpu-")} == {
        f"{node}{slice_}" for node in ("gpu-2", "gpu-3") for slice_ in ("", "-gpu.nvidia.com-0")
    }


# what is done to nodes


class FakeNode(Node):
    """Writes down what is done to it, into the log of its cluster; `fails` names what does not work."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.fails = ""

    def _did(self, what: str) -> None:
        self.log.append(what)
        if what == self.fails:
            raise ComponentError(f"{what} failed")

    def power_off(self) -> None:
        self._did("off")

    def boot(self) -> None:
        self._did("boot")

    def check(self) -> None:
        self._did("check")

    def kill_kubelet(self) -> None:
        self._did("kill kubelet")

    def restart_kubelet(self, kubernetes: str | None = None) -> None:
        del kubernetes
        self._did("start kubelet")

    def publish(self, devices: Sequence[Json], *counters: Json, driver: str = "", **fields: Any) -> None:
        del counters, driver, fields
        tainted = sum("taints" in each for each in devices)
        self._did(f"publish {len(devices)}" + (f", {tainted} tainted" if tainted else ""))


@pytest.fixture
def cluster() -> Recorded:
    return Recorded("gpu-0", pods=[bound("p", "gpu-0"), bound("q", "gpu-1")])


@pytest.fixture
def node(cluster: Recorded) -> FakeNode:
    return FakeNode("gpu-0", cluster.log)


@pytest.fixture
def real(cluster: Recorded, node: FakeNode) -> RealNodes:
    return RealNodes(cluster, [node])


def test_pods_of_a_node_go_at_once_only_when_its_containers_have_ended(cluster: Recorded, real: RealNodes) -> None:
    real.remove("gpu-0", 0)
    assert cluster.log == ["off", "DELETE gpu-0", "DELETE its-slice", "DELETE p at once", "boot", "publish 8"]


def test_a_node_that_was_disturbed_is_up_anew_and_one_that_publishes_stays_up(real: RealNodes) -> None:
    before = real.up()["gpu-0"]
    real.publish("gpu-0", without=2, tainted=1)
    assert real.up()["gpu-0"] == before
    real.kill_kubelet("gpu-0", 0)
    assert real.up()["gpu-0"] > before
    assert real.failures == []


def test_a_node_that_does_not_come_back_is_found_and_rebooted_in_the_end(node: FakeNode, real: RealNodes) -> None:
    node.fails = "start kubelet"
    real.kill_kubelet("gpu-0", 0)
    assert real.failures == [Finding("node", "gpu-0", "start kubelet failed")]
    assert real.up() == {}
    node.log.clear()
    real.restore()
    assert node.log == ["off", "boot", "publish 8"]
    assert list(real.up()) == ["gpu-0"]


def test_a_program_that_has_ended_by_itself_is_found(node: FakeNode, real: RealNodes) -> None:
    node.fails = "check"
    real.restore()
    assert real.failures == [Finding("node", "gpu-0", "check failed")]
    assert node.log == ["check", "off", "boot", "publish 8"]


def test_disturbances_of_real_nodes_are_done_to_these(cluster: Recorded, real: RealNodes) -> None:
    disturbances = Disturbances(cluster, 1, real)
    disturbances.stop.set()
    for _ in range(40):
        disturbances._republish()  # noqa: SLF001 - which of its disturbances comes is drawn
        disturbances._taint_device()  # noqa: SLF001 - as above
    written = [each for each in cluster.bodies if each and each.get("kind") == "ResourceSlice"]
    assert not [each for each in written if each["spec"]["nodeName"] == "gpu-0"]
    assert {"publish 8", "publish 7", "publish 6", "publish 8, 1 tainted"} <= set(cluster.log)


def test_slices_vanish_only_where_no_kubelet_of_its_own_removes_them(cluster: Recorded, real: RealNodes) -> None:
    disturbances = Disturbances(cluster, 1, real)
    disturbances.stop.set()
    for _ in range(40):
        disturbances._restart_kubelet()  # noqa: SLF001 - which of its disturbances comes is drawn
        disturbances._end_driver()  # noqa: SLF001 - as above
    wiped = {each.partition("spec.nodeName=")[2] for each in cluster.log if each.startswith("DELETE resourceslices?")}
    assert {"gpu-1", "gpu-2", "gpu-3", "gpu-1,spec.driver=gpu.nvidia.com"} <= wiped
    assert not [each for each in wiped if each.startswith("gpu-0")]


# what the judge finds


def test_a_device_that_is_prepared_for_two_claims_is_found_once(judge: NodeJudge) -> None:
    calls = [call("prepare", "a", "gpu-1"), call("prepare", "b", "gpu-1")]
    judge.preparations(DRIVER, [calls])
    judge.preparations(DRIVER, [[*calls, call("unprepare", "a")]])
    ((rule, subject, message),) = judge.findings
    assert (rule, subject) == ("prepared", DRIVER)
    assert "was prepared for ns/b (b)" in message


def test_a_device_that_was_given_back_or_lost_its_container_in_a_reboot_may_be_prepared_again(judge: NodeJudge) -> None:
    before = [call("prepare", "a", "gpu-1"), call("unprepare", "a"), call("prepare", "b", "gpu-1")]
    judge.preparations(DRIVER, [before, [call("prepare", "c", "gpu-1")]])
    assert judge.findings == []


def test_what_containers_and_claims_do_not_agree_about_for_long_is_found(judge: NodeJudge) -> None:
    for second in range(0, 40, 2):
        judge.disagreements(["container main of pod ns/p has other devices"], second)
    assert judge.findings == [Finding("devices", "real nodes", "container main of pod ns/p has other devices")]


def test_what_they_do_not_agree_about_now_and_then_is_not(judge: NodeJudge) -> None:
    for second in range(0, 100, 2):
        judge.disagreements(["other devices"] if second % LASTING_SECONDS else [], second)
    assert judge.findings == []


def waiting(**status: Any) -> Json:
    return {
        "metadata": {"namespace": "ns", "name": "p", "uid": "p"},
        "spec": {"nodeName": "gpu-0", "resourceClaims": [{"name": "devices", "resourceClaimName": "c"}]},
        "status": {"phase": "Pending", **status},
    }


def claim(**changes: Any) -> Json:
    allocation = {"devices": {"results": [{"driver": "d", "pool": "gpu-0", "device": "gpu-1"}]}}
    status = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}], **changes}
    return {"metadata": {"namespace": "ns", "name": "c"}, "status": status}


def watch(judge: NodeJudge, pods: list[Json], claims: list[Json], *, up_since: float = 0) -> None:
    for second in range(0, 90, 2):
        judge.starts(pods, claims, {"gpu-0": up_since} if second >= up_since else {}, second)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="untouched"),
        pytest.param(
            {"containerStatuses": [{"name": "main", "restartCount": 0, "state": {"waiting": {}}}]}, id="its image waits"
        ),
    ],
)
def test_a_pod_that_nothing_keeps_from_starting_for_a_minute_is_found(judge: NodeJudge, status: Json) -> None:
    watch(judge, [waiting(**status)], [claim()])
    assert [(each.rule, each.subject) for each in judge.findings] == [("start", "ns/p")]


def test_so_is_one_whose_claim_is_its_groups(judge: NodeJudge) -> None:
    pod = waiting()
    pod["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    watch(judge, [pod], [claim(reservedFor=[{"resource": "podgroups", "name": "g", "uid": "g"}])])
    assert [each.rule for each in judge.findings] == ["start"]


RUNNING = {"name": "main", "restartCount": 0, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("pod", "claims"),
    [
        pytest.param(waiting(phase="Running"), [claim()], id="it runs"),
        pytest.param(waiting(phase="Failed"), [claim()], id="its kubelet refused it"),
        pytest.param(waiting(containerStatuses=[RUNNING]), [claim()], id="a container has started"),
        pytest.param(waiting(), [], id="its claim is gone"),
        pytest.param(waiting(), [claim(reservedFor=[])], id="its claim is not reserved for it"),
        pytest.param(waiting(), [claim(allocation={})], id="its claim is not allocated"),
    ],
)
def test_a_pod_that_may_not_start_is_not(judge: NodeJudge, pod: Json, claims: list[Json]) -> None:
    watch(judge, [pod], claims)
    assert (judge.findings, judge.starting) == ([], {})


def test_nor_is_one_that_is_being_deleted(judge: NodeJudge) -> None:
    pod = waiting()
    pod["metadata"]["deletionTimestamp"] = "now"
    watch(judge, [pod], [claim()])
    assert judge.findings == []


def test_nor_one_whose_node_was_disturbed_meanwhile(judge: NodeJudge) -> None:
    watch(judge, [waiting()], [claim()], up_since=90 - START_SECONDS)
    assert judge.findings == []
    assert judge.starting == {"p": 90 - START_SECONDS}


def test_what_may_still_come_right_is_waited_for(judge: NodeJudge) -> None:
    assert not judge.is_undecided(0)
    judge.starts([waiting()], [claim()], {"gpu-0": 0}, 0)
    assert judge.is_undecided(START_SECONDS - 1)
    assert not judge.is_undecided(START_SECONDS)
    judge.disagreements(["other devices"], START_SECONDS)
    assert judge.is_undecided(START_SECONDS + LASTING_SECONDS - 1)
    judge.disagreements([], START_SECONDS + 1)
    assert not judge.is_undecided(START_SECONDS + 1)


@pytest.mark.parametrize(
    ("boots", "left"),
    [
        pytest.param([[call("prepare", "a", "gpu-1"), call("unprepare", "a")]], [], id="given back"),
        pytest.param([[call("prepare", "a", "gpu-1")], [call("unprepare", "a")]], [], id="after a boot"),
        pytest.param([[call("prepare", "a", "gpu-1")], []], ["a"], id="forgotten in a boot"),
        pytest.param([[call("prepare", "a", "gpu-1"), call("unprepare", "a", error="busy")]], ["a"], id="not yet"),
    ],
)
def test_what_stays_prepared_is_found(boots: list[list[Call]], left: list[str]) -> None:
    found = still_prepared(DRIVER, boots)
    assert found == [
        Finding("prepared", DRIVER, f"claim ns/{each} ({each}) is still prepared, and no pod is there") for each in left
    ]


# the command


@pytest.mark.parametrize("count", ["-1", str(len(GPU_NODES) + 1), "all"])
def test_as_many_nodes_are_real_as_there_are(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--nodes", count])
    assert ended.value.code == 2
    assert "--nodes" in capsys.readouterr().err


def test_where_no_node_can_run_nothing_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "unusable", lambda *_: "real nodes need root")
    folder = tmp_path / "state"
    assert command.main(["--nodes", "1", "--folder", str(folder)]) == 2
    assert "No node can run here: real nodes need root." in capsys.readouterr().err
    assert not folder.exists()
