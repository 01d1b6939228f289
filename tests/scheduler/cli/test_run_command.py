import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import structlog

from scheduler.cli import main
from scheduler.settings import Settings


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Settings, Path | None]]:
    """What the composition root was called with: the command's whole effect."""
    calls: list[tuple[Settings, Path | None]] = []
    root = ModuleType("scheduler.run")

    def run(settings: Settings, kubeconfig: Path | None, _: object) -> int:
        calls.append((settings, kubeconfig))
        return 7

    root.__dict__["run"] = run
    monkeypatch.setitem(sys.modules, "scheduler.run", root)
    monkeypatch.setattr("scheduler.observe.logs.configure", lambda _: None)
    monkeypatch.setattr("scheduler.worker.fork_server.ForkServers.launch_ahead", lambda _: None)
    return calls


def test_it_runs_and_gives_the_status(ran: list[tuple[Settings, Path | None]]) -> None:
    assert main(["run"]) == 7
    assert len(ran) == 1


def test_flags_reach_the_run(ran: list[tuple[Settings, Path | None]]) -> None:
    arguments = "run --kubeconfig k --scheduler-name a --scheduler-name b --leader-elect=False --bind-address :1"
    main([*arguments.split(), "--log-level=debug", "--log-format=console"])
    settings, kubeconfig = ran[0]
    assert kubeconfig == Path("k")
    assert settings.scheduler_names == {"a", "b"}
    assert not settings.leader_election.enabled
    assert settings.health.bind_address == settings.metrics.bind_address == ":1"
    assert (settings.logging.level, settings.logging.format) == ("debug", "console")


def test_an_old_key_of_the_configuration_is_logged(ran: list[tuple[Settings, Path | None]], tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    head = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
    path.write_text(f"{head}queue: {{maxPassedOverSeconds: 7}}\n", encoding="utf-8")
    with structlog.testing.capture_logs() as lines:
        assert main(["run", "--config", str(path)]) == 7
    message = f"{path}: queue.maxPassedOverSeconds is deprecated, write queue.starvationSeconds"
    assert lines == [{"event": "setting_deprecated", "log_level": "warning", "message": message}]
    assert ran[0][0].queue.starvation_seconds == 7


def test_a_crash_is_logged_like_everything_else(
    ran: list[tuple[Settings, Path | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> int:
        raise RuntimeError("defect")

    monkeypatch.setitem(sys.modules["scheduler.run"].__dict__, "run", crash)
    with structlog.testing.capture_logs() as lines:
        assert main(["run"]) == 1
    assert [(line["event"], line["log_level"]) for line in lines] == [("crashed", "error")]
    assert ran == []


def test_a_wrong_configuration_never_runs(ran: list[tuple[Settings, Path | None]]) -> None:
    assert main(["run", "--config", "/absent"]) == 2
    assert ran == []


def test_a_run_imports_neither_the_solver_nor_what_only_some_configurations_need() -> None:
    slow = ("kubernetes", "numpy", "ortools", "lark", "rich", "solver.decide", "solver.feasibility.selectors")
    code = f"import scheduler.run, sys; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_worker_is_launched_before_the_cluster_is_talked_to(
    ran: list[tuple[Settings, Path | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[int] = []
    name = "scheduler.worker.fork_server.ForkServers.launch_ahead"
    monkeypatch.setattr(name, lambda _: launched.append(len(ran)))
    assert main(["run"]) == 7
    assert launched == [0]
