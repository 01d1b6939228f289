"""`dovetail status --wait` waits for what is not known yet, as it does for what has failed."""

from collections.abc import Iterator

import pytest

from scheduler.cli.installation import status
from scheduler.cli.sources.configuration import Configuration
from scheduler.installation import findings
from scheduler.installation.status_output import InstallationStatus
from scheduler.settings import default
from scheduler.status.leader_lease import SeenLease
from tests.scheduler.installation.test_findings import HEALTHY, LEASE, NOW
from tests.support import manifests as m


def read(lease: SeenLease | None) -> InstallationStatus:
    seen = HEALTHY._replace(lease=lease)
    return InstallationStatus("dovetail-system", seen.runs, seen, None, tuple(findings.of_scheduler(seen, "a", NOW)))


def test_the_first_word_of_a_new_leader_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its Lease says at first that it leads, and not how its watches are: the next command may follow `&&`."""
    looks: Iterator[InstallationStatus] = iter([read(None), read(LEASE._replace(report=None)), read(LEASE)])
    monkeypatch.setattr(status, "cluster_access", lambda _: None)
    monkeypatch.setattr(status, "configuration", lambda *_: Configuration(default()))
    monkeypatch.setattr(status, "_read", lambda *_: (next(looks), ()))
    monkeypatch.setattr(status, "_PAUSE_SECONDS", 0.0)
    assert m.run("status", "--wait") == 0
    shown = capsys.readouterr().out
    assert "is healthy" in shown
    assert "has not said yet" not in shown
    assert list(looks) == []
