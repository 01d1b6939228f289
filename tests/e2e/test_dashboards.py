"""The pictures of the panels: each kind is drawn, lines have the names that the dashboard gives them."""

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from e2e.dashboards import grafana, pictures
from e2e.dashboards.panels import BOARDS, Board


def answers_of(board: Board) -> dict[tuple[str, bool], list[Any]]:
    """Two series for each query, as Prometheus answers it."""
    found = {}
    for panel in json.loads(grafana.written(board))["panels"]:
        for target in panel["targets"]:
            labels = [{"le": "0.1", "queue": "active"}, {"le": "+Inf", "queue": "backoff"}]
            points = {"value": [3, "2"]} if target["instant"] else {"values": [[1, "1"], [2, "2"], [3, "NaN"]]}
            found[target["expr"], target["instant"]] = [{"metric": each, **points} for each in labels]
    return found


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved."""
    found: list[Figure] = []
    save = Figure.savefig

    def saved(figure: Figure, *given: Any, **named: Any) -> None:
        found.append(figure)
        save(figure, *given, **named)

    monkeypatch.setattr(Figure, "savefig", saved)
    return found


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_every_panel_is_drawn(board: Board, tmp_path: Path, drawn: list[Figure]) -> None:
    pictures.draw(board, answers_of(board), tmp_path / "board.png")
    assert (tmp_path / "board.png").read_bytes().startswith(b"\x89PNG")
    assert {axes.get_title(loc="left") for axes in drawn[0].axes} == {panel.title for panel in board.panels}
    for axes in drawn[0].axes:
        if axes.get_title(loc="left") == "Pending pods by queue":
            assert axes.get_legend_handles_labels()[1] == ["active", "backoff"]


def test_a_panel_without_data_says_so(tmp_path: Path, drawn: list[Figure]) -> None:
    board = BOARDS[1]
    pictures.draw(board, {key: [] for key in answers_of(board)}, tmp_path / "board.png")
    assert {axes.texts[0].get_text() for axes in drawn[0].axes} == {"No data"}
