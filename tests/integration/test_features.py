"""
Every feature of DRA on the real API server, for Dovetail and for kube-scheduler on equal objects.

Each prints a line of the table that tells where the pods of either side ended (`pytest -rP` shows them).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from tests.support.feature_scenes import FEATURES, Feature
from tests.support.feature_stage import Side, Theatre

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(since="1.37")]


@pytest.fixture(scope="module")
def schedulers(control_plane: ControlPlane, account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both, side by side, each for the pods that name it."""
    log = tmp_path_factory.mktemp("features") / "dovetail.log"
    peer = control_plane.start_kube_scheduler()
    with Dovetail.start(account, log, "--scheduler-name=dovetail", leader_elect=False):
        yield
    peer.stop()


@pytest.fixture
def theatres(control_plane: ControlPlane, schedulers: None, request: pytest.FixtureRequest) -> Iterator[list[Theatre]]:
    del schedulers
    feature: Feature = request.param
    ours = Side(f"ours-{feature.name}", "dovetail", is_peer=False)
    peers = Side(f"peer-{feature.name}", "default-scheduler", is_peer=True)
    both = [Theatre(control_plane, each) for each in (ours, peers)]
    yield both
    for each in both:
        each.clear()


GATES = {"list-attributes": pytest.mark.kubernetes(gates=("DRAListTypeAttributes",))}


@pytest.mark.parametrize(
    ("theatres", "feature"),
    [pytest.param(each, each, id=each.name, marks=GATES.get(each.name, ())) for each in FEATURES],
    indirect=["theatres"],
)
def test_a_feature_is_served(theatres: list[Theatre], feature: Feature) -> None:
    played = [(theatre, list(feature.play(theatre.side))) for theatre in theatres]
    wrong: list[str] = []
    for index in range(max(len(stages) for _, stages in played)):
        now = [(theatre, stages[index]) for theatre, stages in played if index < len(stages)]
        for theatre, stage in now:
            theatre.begin(stage)
        for theatre, stage in now:
            wrong += [f"{theatre.side.scheduler}, stage {index}: {each}" for each in theatre.finish(stage)]
    for theatre in theatres:
        _tell(feature.name, theatre.side.scheduler, " | ".join(theatre.outcomes))
    _tell("", feature.differs or "the same")
    findings = [
        finding
        for theatre in theatres
        if not (theatre.side.is_peer and feature.differs)
        for finding in theatre.findings()
    ]

    assert wrong == []
    assert findings == []


def _tell(name: str, *columns: str) -> None:
    print(f"{name:45}", *(f"{each:18}" for each in columns))  # noqa: T201 -- a line of the table
