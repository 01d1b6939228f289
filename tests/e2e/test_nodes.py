"""What is read of real nodes, and what of it is wrong, without any node."""

import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e.controlplane.access import RequestError
from e2e.controlplane.processes import Component
from e2e.nodes import image, invariants, settings
from e2e.nodes.invariants import prepared_twice
from e2e.nodes.node import Json, holds, wait
from e2e.nodes.records import Call, Container, PreparedDevice, by_boot, calls, containers

GPUS = (PreparedDevice("a/b", "node-0", "gpu-0"), PreparedDevice("c", "node-0", "gpu-1"))
NOW = datetime(2026, 11, 28, tzinfo=UTC)


def prepare(uid: str, *devices: PreparedDevice, error: str = "") -> Call:
    return Call(time=NOW, call="prepare", uid=uid, namespace="ns", name=uid, devices=devices, error=error)


def unprepare(uid: str, error: str = "") -> Call:
    return Call(time=NOW, call="unprepare", uid=uid, namespace="ns", name=uid, error=error)


def device(name: str = "gpu-0", share: str = "", *, admin: bool = False) -> PreparedDevice:
    return PreparedDevice(request="r", pool="node-0", device=name, share=share, admin=admin)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([prepare("a", device()), unprepare("a"), prepare("b", device())], id="one after the other"),
        pytest.param([prepare("a", device()), prepare("a", device())], id="again for the same claim"),
        pytest.param([prepare("a", device()), prepare("b", device("gpu-1"))], id="two devices"),
        pytest.param([prepare("a", device(), error="no power"), prepare("b", device())], id="the first failed"),
        pytest.param([prepare("a", device()), prepare("b", device(admin=True))], id="admin access"),
        pytest.param([prepare("a", device(share="1")), prepare("b", device(share="2"))], id="two shares"),
    ],
)
def test_a_device_may_be_prepared(log: list[Call]) -> None:
    assert list(prepared_twice(log)) == []


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([prepare("a", device()), prepare("b", device())], id="for two claims"),
        pytest.param(
            [prepare("a", device()), unprepare("a", error="busy"), prepare("b", device())], id="it was not given back"
        ),
        pytest.param([prepare("a", device(share="1")), prepare("b", device(share="1"))], id="one share twice"),
        pytest.param([prepare("a", device(share="1")), prepare("b", device())], id="a share and the whole"),
    ],
)
def test_a_device_is_prepared_twice(log: list[Call]) -> None:
    (problem,) = prepared_twice(log)
    assert problem.startswith("node-0/gpu-0 was prepared for ns/b (b)")
    assert problem.endswith("and ns/a (a) still had it")


def cluster(*printed: str, phase: str = "running", log: Sequence[Call] = (), **claim: Any) -> tuple[Any, Any]:
    """A plane with one pod, whose claim has a device for one of two requests, and a node where it printed devices."""
    status = {"name": "main", "restartCount": 0, "state": {phase: {}}}
    made = {"name": "devices", "resourceClaimName": "made"}
    pod = {
        "metadata": {"namespace": "ns", "name": "p", "uid": "uid"},
        "spec": {
            "nodeName": "node-0",
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "t"}],
            "containers": [{"name": "main", "resources": {"claims": [{"name": "devices", "request": "a"}]}}],
        },
        "status": {"containerStatuses": [status], "resourceClaimStatuses": [made]},
    }
    results = [
        {"request": request, "driver": settings.DRIVER, "pool": "node-0", "device": device, **claim}
        for request, device in (("a/b", "gpu-0"), ("c", "gpu-1"))
    ]
    allocation = {"devices": {"results": results}}
    items = {
        "/api/v1/pods": [pod],
        "/apis/resource.k8s.io/v1/resourceclaims": [
            {"metadata": {"namespace": "ns", "name": "made", "uid": "made"}, "status": {"allocation": allocation}}
        ],
    }
    said = Container("ns", "p", "uid", "main", 0, {}, printed)
    node = SimpleNamespace(
        name="node-0",
        drivers=(settings.DRIVER,),
        boots=lambda _driver: [log],
        containers=lambda: [said] if printed else [],
    )
    return SimpleNamespace(request=lambda _method, path: {"items": items[path]}), [node]


def test_a_container_with_the_devices_of_its_request_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "SETTLE_SECONDS", 0)
    gpu = f"{settings.DRIVER}/node-0/gpu-0"
    assert invariants.audit(*cluster(gpu)) == []
    assert invariants.audit(*cluster(f"{gpu}/s1", shareID="s1")) == []
    assert invariants.audit(*cluster(phase="waiting")) == []


@pytest.mark.parametrize("skipped", ["*", "NodePrepareResources"])
def test_a_container_has_no_devices_whose_preparation_is_skipped(monkeypatch: pytest.MonkeyPatch, skipped: str) -> None:
    monkeypatch.setattr(invariants, "SETTLE_SECONDS", 0)
    gpu = f"{settings.DRIVER}/node-0/gpu-0"
    (problem,) = invariants.audit(*cluster(gpu, skipNodeOperations=[skipped]))
    assert problem.endswith("and its claims have []")
    assert invariants.audit(*cluster(gpu, skipNodeOperations=["NodeUnprepareResources"])) == []


def test_a_container_with_other_devices_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "SETTLE_SECONDS", 0)
    gpu = f"{settings.DRIVER}/node-0/gpu-"
    assert invariants.audit(*cluster(f"{gpu}1")) == [
        f"container main of pod ns/p has the devices ['{gpu}1'], and its claims have ['{gpu}0']"
    ]
    assert invariants.audit(*cluster()) == ["container main of pod ns/p runs and has printed nothing"]
    assert invariants.audit(*cluster(), others={"another"}) != []
    assert invariants.audit(*cluster(), others={"ns"}) == []


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([prepare("made", *GPUS)], id="with the devices of the claim"),
        pytest.param([prepare("made", GPUS[0]), prepare("made", *GPUS)], id="again"),
        pytest.param([prepare("made", GPUS[0]), unprepare("made")], id="and taken back"),
        pytest.param([prepare("made", GPUS[0], error="no power")], id="without success"),
        pytest.param([prepare("gone", GPUS[0])], id="for a claim that is gone"),
    ],
)
def test_a_claim_is_prepared(log: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "SETTLE_SECONDS", 0)
    assert invariants.audit(*cluster(phase="waiting", log=log)) == []


def test_a_claim_is_prepared_with_other_devices_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "SETTLE_SECONDS", 0)
    (problem,) = invariants.audit(*cluster(phase="waiting", log=[prepare("made", GPUS[0])]))
    assert problem.startswith(
        f"{settings.DRIVER}/node-0 has prepared [('a/b', 'gpu-0', '')] for claim ns/made, which has"
    )


def test_the_log_of_calls_is_read(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    assert calls(log) == []
    line = {"time": "2026-11-28T00:00:00.123456789Z", "call": "prepare", "uid": "u", "namespace": "ns", "name": "c"}
    log.write_text(json.dumps({**line, "devices": [{"request": "r", "pool": "node-0", "device": "gpu-0"}]}) + "\n")
    (call,) = calls(log)
    assert (call.time, call.devices) == (NOW.replace(microsecond=123456), (device(),))


def test_an_api_server_that_is_away_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    asked: list[Exception | bool] = [RequestError(500, "etcd"), ConnectionResetError(), False, True]

    def is_ready() -> bool:
        answer = asked.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with Component("sleep", ["sleep", "600"], tmp_path / "log", cwd=tmp_path) as component:
        wait(component, is_ready)
    assert asked == []


def test_a_line_that_is_being_written_is_read_later(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    line = json.dumps({"time": "2026-11-28T00:00:00Z", "call": "unprepare", "uid": "u", "namespace": "ns", "name": "c"})
    log.write_text(f"{line}\n{line[:20]}")
    assert len(calls(log)) == 1
    folder = tmp_path / "ns_p_uid" / "main"
    folder.mkdir(parents=True)
    (folder / "0.log").write_text("2026-11-28T00:00:00Z stdout")
    assert containers(tmp_path) == []


def test_what_another_program_prints_is_no_container_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "ns_p_uid" / "main"
    folder.mkdir(parents=True)
    (folder / "0.log").write_text('2026-11-28T00:00:00Z stdout F {"event": "started"}\n')
    assert containers(tmp_path) == []


def test_calls_are_divided_by_the_boots_of_their_node() -> None:
    before, after = prepare("a", device()), replace(prepare("b", device()), time=NOW + timedelta(seconds=2))
    assert by_boot([before, after], []) == [[before, after]]
    assert by_boot([before, after], [NOW + timedelta(seconds=1)]) == [[before], [after]]
    assert by_boot([before], [NOW, NOW + timedelta(seconds=1)]) == [[before], [], []]


def test_a_device_may_be_prepared_for_another_claim_after_a_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "SETTLE_SECONDS", 0)
    plane, (node,) = cluster(phase="waiting", log=[prepare("gone", GPUS[0])])
    node.boots = lambda _driver: [[prepare("gone", GPUS[0])], [prepare("made", *GPUS)]]
    assert invariants.audit(plane, [node]) == []


def test_the_last_line_of_a_container_that_started_again_is_that_of_its_last_start(tmp_path: Path) -> None:
    folder = tmp_path / "ns_p_uid" / "main"
    folder.mkdir(parents=True)
    for restart in (0, 2, 10):
        said = {"environment": {"N": str(restart)}, "devices": [f"d{restart}"]}
        (folder / f"{restart}.log").write_text(f"2026-11-28T00:00:00Z stdout F {json.dumps(said)}\n")
    (folder / "11.log").write_text("2026-11-28T00:00:00Z stderr F exec format error\n")
    found = containers(tmp_path)
    assert [each.devices for each in found] == [("d0",), ("d2",), ("d10",)]
    assert (found[-1].namespace, found[-1].pod, found[-1].uid, found[-1].restart) == ("ns", "p", "uid", 10)


def test_published_devices_are_those_that_were_wanted_with_what_the_server_adds() -> None:
    wanted: list[Json] = [{"name": "b", "taints": [{"key": "k"}]}, {"name": "a"}]
    assert holds([{"name": "a"}, {"name": "b", "taints": [{"key": "k", "timeAdded": "now"}]}], wanted)
    assert not holds([{"name": "a"}, {"name": "b"}], wanted)
    assert not holds([{"name": "a"}], wanted)


def test_the_image_is_one_layer_with_the_program(tmp_path: Path) -> None:
    program, archive = tmp_path / "program", tmp_path / "image.tar"
    program.write_bytes(b"program")
    image.write(program, archive, "x86_64")
    with tarfile.open(archive) as layout:

        def read(name: str) -> bytes:
            file = layout.extractfile(name)
            assert file is not None
            return file.read()

        def blob(descriptor: dict[str, str]) -> bytes:
            return read("blobs/" + descriptor["digest"].replace(":", "/"))

        (entry,) = json.loads(read("index.json"))["manifests"]
        manifest = json.loads(blob(entry))
        config, (layer,) = json.loads(blob(manifest["config"])), manifest["layers"]
        with tarfile.open(fileobj=io.BytesIO(blob(layer))) as unpacked:
            assert [(each.name, each.mode) for each in unpacked] == [("container", 0o755)]
    assert entry["annotations"]["io.containerd.image.name"] == image.NAME
    assert config["config"]["Entrypoint"] == ["/container"]
