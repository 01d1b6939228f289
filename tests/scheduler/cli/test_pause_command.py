"""What `dovetail pause`, `resume` and their old name say, and their exit statuses."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.cli.sources import running_configuration
from scheduler.cli.sources.running_configuration import RunningConfigurations
from scheduler.installation import pausing
from scheduler.installation.pausing import LeaseName, Paused, PauseTimeoutError
from tests.support import manifests as m

DONE = Paused(special=1, released=3, claims=7, nominations=2, running=285, waiting=15, problems=())
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
    return m.write_yaml(
        tmp_path / "kubeconfig", {"apiVersion": "v1", "kind": "Config", "current-context": "c", **document}
    )


@pytest.fixture(autouse=True)
def _no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_configuration, "read", lambda *_: RunningConfigurations())


def config(folder: Path, **election: Any) -> Path:
    path = folder / "config.yaml"
    head = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
    path.write_text(yaml.safe_dump({**head, "leaderElection": election}))
    return path


def test_it_says_what_was_done_and_what_comes_next(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    asked: list[LeaseName] = []

    def pause(_: object, __: object, lease: LeaseName, *___: object, **____: object) -> Paused:
        asked.append(lease)
        return DONE

    monkeypatch.setattr(pausing, "pause", pause)
    assert m.run("pause", "--kubeconfig", kubeconfig) == 0
    assert asked == [LeaseName("dovetail-system", "dovetail")]
    said = capsys.readouterr().err
    assert "released 3 claims, deleted 1 claims for extended resources" in said
    assert "paused: 285 pods run and keep their devices, 15 wait. Remove Dovetail now" in said


def test_what_is_left_is_named(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    left = DONE._replace(problems=("claim ns/c is still reserved for a pod",))
    monkeypatch.setattr(pausing, "pause", lambda *_, **__: left)
    assert m.run("pause", "--kubeconfig", kubeconfig) == 1
    said = capsys.readouterr().err
    assert "warning: claim ns/c is still reserved for a pod" in said
    assert "paused, but not everything could be taken back: 285 pods run and keep their devices, 15 wait" in said


def test_a_leader_that_does_not_end_is_named(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def pause(*_: object, **__: object) -> Paused:
        raise PauseTimeoutError("pod-1 still holds the lease")

    monkeypatch.setattr(pausing, "pause", pause)
    assert m.run("pause", "--kubeconfig", kubeconfig) == 1
    assert "pod-1 still holds the lease" in capsys.readouterr().err


def test_without_leader_election_there_is_nothing_to_mark(kubeconfig: Path, tmp_path: Path, capsys: Capture) -> None:
    assert m.run("pause", "--kubeconfig", kubeconfig, "--config", config(tmp_path, enabled=False)) == 2
    assert "scale the Deployment to 0 instead" in capsys.readouterr().err


@pytest.mark.parametrize(("is_there", "status"), [(True, 0), (False, 2)])
def test_resuming_needs_the_lease(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, *, is_there: bool, status: int
) -> None:
    monkeypatch.setattr(pausing, "resume", lambda *_: is_there)
    assert m.run("resume", "--kubeconfig", kubeconfig, "--lease-namespace", "here") == status
    assert "here/dovetail" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "new"), [(("drain",), "pause"), (("drain", "--undo"), "resume")])
def test_the_old_name_does_the_same_and_warns(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: tuple[str, ...], new: str
) -> None:
    called: list[str] = []

    def pause(*_: object, **__: object) -> Paused:
        called.append("pause")
        return DONE

    def resume(*_: object) -> bool:
        called.append("resume")
        return True

    monkeypatch.setattr(pausing, "pause", pause)
    monkeypatch.setattr(pausing, "resume", resume)
    assert m.run(*words, "--kubeconfig", kubeconfig) == 0
    assert called == [new]
    assert f"warning: `dovetail {' '.join(words)}` is `dovetail {new}` now" in capsys.readouterr().err
