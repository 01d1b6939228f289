"""What nodes have left: reading a resource changes nothing."""

import numpy as np
import pytest

from solver.problem.node_arrays import PODS, Room


def room() -> Room:
    return Room({PODS: np.array([3, 1], dtype=np.int64), "cpu": np.array([4, 0], dtype=np.int64)})


def test_a_resource_that_no_node_publishes_is_nowhere_and_stays_unknown() -> None:
    left = room()

    assert left.of("nvidia.com/gpu").tolist() == [0, 0]
    assert left.fits([("nvidia.com/gpu", 1)]).tolist() == [False, False]
    assert left.fits([("cpu", 4)]).tolist() == [True, False]
    assert list(left.free) == [PODS, "cpu"]


def test_what_is_nowhere_cannot_be_written_into() -> None:
    with pytest.raises(ValueError, match="read-only"):
        room().of("nvidia.com/gpu")[0] = 1
    assert room().of("amd.com/gpu").tolist() == [0, 0]


def test_what_is_taken_of_a_resource_that_no_node_publishes_is_missing_there() -> None:
    left = room()
    left.change("nvidia.com/gpu", 1, -2)
    left.change("cpu", 0, -1)

    assert left.of("nvidia.com/gpu").tolist() == [0, -2]
    assert left.of("cpu").tolist() == [3, 0]
    assert room().of("nvidia.com/gpu").tolist() == [0, 0]
