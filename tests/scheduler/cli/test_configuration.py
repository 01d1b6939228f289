"""The configuration that a command goes by: --config, else the running scheduler's, else the defaults."""

import argparse
import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.cli.arguments import completed, warn
from scheduler.cli.sources import running_configuration
from scheduler.cli.sources.configuration import (
    Configuration,
    ConfigurationReader,
    add_configured_cluster,
    configuration,
)
from scheduler.cli.sources.running_configuration import NamedSettings, RunningConfigurations
from scheduler.kube.access import ClusterAccess
from scheduler.settings import Settings, default, digest, parse, scheduler_names
from scheduler.status.leader_lease import SeenLease
from scheduler.status.leader_report import LeaderReport, ReservationReport
from tests.support import builders as b
from tests.support.lease_server import LeaseServer, lease_of, reporting

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


def leading(settings: Settings | None, **changed: Any) -> SeenLease:
    """The Lease of a process outside of the cluster; without settings of a version that does not say them."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    told = digest(settings) if settings is not None else ""
    report = LeaderReport(leader="laptop_1", version="1", time=now, since=now, configuration=told)
    found = SeenLease("laptop_1", is_renewed=True, age_seconds=1.0, is_drained=False, report=report)
    return found._replace(**changed)


@pytest.mark.parametrize(
    ("lease", "said", "is_known"),
    [
        pytest.param(None, "no Dovetail runs in namespace dovetail-system", True, id="no Lease"),
        pytest.param(leading(None, is_renewed=False), "no Dovetail runs", True, id="an old Lease"),
        pytest.param(leading(None, is_renewed=False, is_drained=True), "Dovetail is paused", True, id="paused"),
        pytest.param(leading(default()), "", True, id="a process with the defaults"),
        pytest.param(leading(parse(f"{HEAD}health: {{bindAddress: ':1'}}\n", "test")), "", True, id="another address"),
        pytest.param(leading(parse(BLUE, "test")), "laptop leads outside of the cluster", False, id="other profiles"),
        pytest.param(leading(None), "laptop leads outside of the cluster", False, id="an unknown configuration"),
    ],
)
def test_a_process_outside_of_the_cluster_that_leads_is_seen_by_its_lease(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lease: SeenLease | None,
    said: str,
    *,
    is_known: bool,
) -> None:
    monkeypatch.setattr(running_configuration, "read", lambda *_: RunningConfigurations((), (), lease))
    found = chosen()
    found.warn_of_no_scheduler()
    error = capsys.readouterr().err
    assert error.startswith(f"dovetail: warning: {said}" if said else "")
    assert error.count("\n") == (1 if said else 0)
    assert found.is_known is is_known


def test_reservations_are_those_of_the_leader_and_of_pods_that_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lease = leading(default())
    assert lease.report is not None
    report = replace(lease.report, reservations=(ReservationReport(uids=("u",), nodes=("n1",)),), more_reserved=2)
    lease = lease._replace(report=report)
    monkeypatch.setattr(running_configuration, "read", lambda *_: RunningConfigurations((), (), lease))
    parser = argparse.ArgumentParser()
    add_configured_cluster(parser)
    reader = ConfigurationReader(parser.parse_args([]), ACCESS)
    reader.chosen()
    waiting = b.pod("eight", uid="u")
    assert [(each.pod, each.nodes) for each in reader.reservations([waiting])] == [(waiting.id, ("n1",))]
    assert "2 more nodes are reserved for starving pods" in capsys.readouterr().err
    assert completed(0, (), is_configured=reader.is_known) == 3

    old = lease._replace(is_renewed=False)
    monkeypatch.setattr(running_configuration, "read", lambda *_: RunningConfigurations((), (), old))
    reader = ConfigurationReader(parser.parse_args([]), ACCESS)
    reader.chosen()
    assert reader.reservations([waiting]) == (), "what a leader said that is gone is over"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LeaseServer]:
    with LeaseServer(tmp_path).running() as serving:
        yield serving


def read_by(server: LeaseServer, name: str = "", *words: str) -> ConfigurationReader:
    """What reads the reservations of the scheduler with a name, of which the configuration is chosen."""
    parser = argparse.ArgumentParser()
    add_configured_cluster(parser)
    reader = ConfigurationReader(parser.parse_args(words), server.access)
    reader.chosen(name)
    return reader


HELD = ReservationReport(uids=("u",), nodes=("n1",))
WAITING = b.pod("eight", uid="u")


def test_the_reservations_are_those_of_the_chosen_scheduler(running: Any, server: LeaseServer) -> None:
    running(BLUE, f"{GREEN}leaderElection: {{leaseName: dovetail-b}}\n")
    server.leases["dovetail-system/dovetail"] = lease_of(reporting())
    server.leases["dovetail-system/dovetail-b"] = lease_of(reporting(reservations=(HELD,)))
    reader = read_by(server, "green")
    assert server.asked == [], "a command that asks for no reservation reads no Lease"
    assert [each.nodes for each in reader.reservations([WAITING])] == [("n1",)]
    assert (server.asked, reader.is_known) == (["dovetail-system/dovetail-b"], True)
    assert reader.reserved_nodes() == frozenset({"n1"})


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (403, "you may not read Lease dovetail-system/dovetail"),
        (400, "Lease dovetail-system/dovetail cannot be read"),
        (500, "Lease dovetail-system/dovetail cannot be read"),
    ],
)
def test_where_the_lease_cannot_be_read_the_answer_may_be_wrong(
    running: Any, server: LeaseServer, capsys: pytest.CaptureFixture[str], status: int, why: str
) -> None:
    running(BLUE)
    server.leases["dovetail-system/dovetail"] = status
    reader = read_by(server)
    assert reader.is_known
    assert reader.reservations([WAITING]) == ()
    assert reader.reserved_nodes() is None
    said = capsys.readouterr().err
    assert (
        said.count("warning: the answer leaves out that nodes may be reserved for starving pods")
        == said.count("\n")
        == 1
    )
    assert why in said
    assert completed(0, (), is_configured=reader.is_known) == 3


def test_the_lease_of_a_dead_leader_is_looked_at_once(running: Any, server: LeaseServer) -> None:
    running(BLUE)
    old = lease_of(reporting(reservations=(HELD,)), age=timedelta(minutes=5))
    server.leases["dovetail-system/dovetail"] = old
    reader = read_by(server)
    assert (reader.reservations([WAITING]), reader.is_known) == ((), True)
    assert len(server.asked) == 1


def test_a_leader_whose_clock_is_ahead_lives(running: Any, server: LeaseServer) -> None:
    running(BLUE)
    ahead = lease_of(reporting(reservations=(HELD,)), age=-timedelta(minutes=5))
    server.leases["dovetail-system/dovetail"] = ahead
    assert read_by(server).reserved_nodes() == frozenset({"n1"})


def test_a_warning_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    warn("a word and " * 20 + "an-address-that-is-not-cut-although-it-is-longer-than-a-line-of-this-terminal")
    lines = terminal.getvalue().splitlines()
    assert lines[0].startswith("dovetail: warning: a word and")
    assert max(map(len, lines[:-1])) <= 60
    assert all(line.startswith("  ") for line in lines[1:])
    assert lines[-1].strip().startswith("an-address-that-is-not-cut")


def test_where_no_scheduler_runs_the_user_is_told_before_the_answer(
    running: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    running()
    chosen().warn_of_no_scheduler()
    assert capsys.readouterr().err.startswith("dovetail: warning: no Dovetail runs in namespace dovetail")
    assert chosen().idle == scheduler_names.NO_SCHEDULER
    running(BLUE)
    chosen().warn_of_no_scheduler()
    assert capsys.readouterr().err == ""
    assert chosen().idle == ""
    assert chosen()._replace(is_paused=True).idle == scheduler_names.PAUSED
