"""The configuration that a command goes by: --config, else the running scheduler's, else the defaults."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.arguments import completed
from scheduler.cli.sources import running_configuration
from scheduler.cli.sources.configuration import Configuration, add_configured_cluster, configuration
from scheduler.cli.sources.running_configuration import NamedSettings, RunningConfigurations
from scheduler.kube.access import ClusterAccess
from scheduler.settings import Settings, default, parse

HEAD = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
BLUE = f"{HEAD}profiles: [{{schedulerName: blue}}]\n"
GREEN = f"{HEAD}profiles: [{{schedulerName: green}}]\n"
ACCESS = ClusterAccess(None)


def chosen(*words: str, access: ClusterAccess | None = ACCESS, name: str = "") -> Configuration:
    parser = argparse.ArgumentParser()
    add_configured_cluster(parser)
    return configuration(parser.parse_args(words), access, name)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let schedulers run with configurations, and note the namespace that is asked about."""
    asked: list[str] = []

    def run(*found: str, problems: tuple[str, ...] = ()) -> list[str]:
        named = tuple(NamedSettings(f"ConfigMap c{at}", parse(text, "test")) for at, text in enumerate(found))

        def read(_: ClusterAccess, namespace: str) -> RunningConfigurations:
            asked.append(namespace)
            return RunningConfigurations(named, problems)

        monkeypatch.setattr(running_configuration, "read", read)
        return asked

    return run


def names(settings: Settings) -> tuple[str, ...]:
    return tuple(settings.scheduler_names)


def test_that_of_the_running_scheduler(running: Any) -> None:
    asked = running(BLUE)
    found = chosen("--dovetail-namespace", "gpu")
    assert (names(found.settings), found.is_known, asked) == (("blue",), True, ["gpu"])
    chosen()
    assert asked == ["gpu", "dovetail-system"]


def test_the_option_wins_and_no_cluster_is_asked(running: Any, tmp_path: Path) -> None:
    asked = running(BLUE)
    (tmp_path / "config.yaml").write_text(GREEN, encoding="utf-8")
    assert names(chosen("--config", str(tmp_path / "config.yaml")).settings) == ("green",)
    assert chosen(access=None).settings == default(), "files are about no cluster"
    assert asked == []


def test_where_it_is_not_known_the_user_is_told_what_that_means(
    running: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    running(problems=("ConfigMap a/b: you may not read it",))
    found = chosen()
    assert (found.settings, found.is_known) == (default(), False)
    assert capsys.readouterr().err == (
        "dovetail: warning: ConfigMap a/b: you may not read it. The answer goes by Dovetail's defaults: a device may "
        "belong to another scheduler (devices.owned). Give the configuration with --config FILE\n"
    )
    assert completed(0, (), is_configured=found.is_known) == 3


def test_of_several_schedulers_that_of_the_pod(running: Any, capsys: pytest.CaptureFixture[str]) -> None:
    running(BLUE, GREEN)
    assert names(chosen(name="green").settings) == ("green",)
    assert capsys.readouterr().err == ""
    assert not chosen().is_known
    assert "several schedulers run, by ConfigMap c0 and ConfigMap c1" in capsys.readouterr().err


def test_where_no_scheduler_runs_the_user_is_told_before_the_answer(
    running: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    running()
    chosen().warn_of_no_scheduler()
    assert capsys.readouterr().err.startswith("dovetail: warning: no Dovetail runs in namespace dovetail")
    running(BLUE)
    chosen().warn_of_no_scheduler()
    assert capsys.readouterr().err == ""
