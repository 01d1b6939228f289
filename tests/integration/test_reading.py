"""What the API server takes and refuses, `simulate` takes and refuses, and both read the same in it."""

import pytest

from e2e.controlplane.plane import ControlPlane
from e2e.reading import comparison, differences, judges, mutations

SAMPLE = 1200
"""A fifth of a minute; `make reading` asks about thousands."""

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(since="1.37")]


def test_each_base_is_taken_by_both_and_read_alike(control_plane: ControlPlane) -> None:
    for body in mutations.BASES:
        assert judges.of_server(control_plane.request, body).refusal == ""
        assert judges.of_dovetail(body, comparison.VERSION).refusal == ""


def test_a_sample_of_mutated_manifests(control_plane: ControlPlane) -> None:
    tally = comparison.compare(control_plane.request, SAMPLE, seed=1)
    assert tally.disagreements == []
    assert tally.taken > SAMPLE // 5
    assert tally.refused > SAMPLE // 2
    assert len(tally.known) < SAMPLE // 12
    assert set(tally.known) <= {each.name for each in differences.DIFFERENCES}
