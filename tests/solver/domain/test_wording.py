"""Which known name is suggested for an unknown one."""

from collections.abc import Sequence

import pytest

from solver.domain.wording import listed, nearest, suggestion

CLASSES = ("gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com")


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        pytest.param("nvidia-mig", CLASSES, "mig.nvidia.com", id="the words in another order"),
        pytest.param("nvidia-gpu", CLASSES, "gpu.nvidia.com", id="the same of another class"),
        pytest.param("nvidia.com", ("gpu.nvidia.com", "gpu.amd.com"), "gpu.nvidia.com", id="a part"),
        pytest.param("migProfile", ("profile", "parentUUID"), "profile", id="a word too many"),
        pytest.param("prodctName", ("productName", "brand"), "productName", id="a letter too few"),
        pytest.param("deviceID", ("parentDeviceID", "family"), "parentDeviceID", id="another prefix"),
        pytest.param("H100", ("NVIDIA H100 80GB HBM3", "NVIDIA L40S"), "NVIDIA H100 80GB HBM3", id="a part of a value"),
        pytest.param("tpu", CLASSES, "", id="none is near"),
        pytest.param("ready", ("brand", "type"), "", id="letters alone"),
        pytest.param("x", (), "", id="there are none"),
    ],
)
def test_the_nearest_name_is(name: str, known: Sequence[str], expected: str) -> None:
    assert nearest(name, known) == expected


def test_long_lists_are_cut() -> None:
    assert listed("fedcba") == "a, b, c, d and 2 more"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (("gpu.nvidia.com",), "did you mean gpu.nvidia.com?"),
        (("a", "b"), "there are a, b"),
        (("a",), "there is a"),
        ((), "there is no driver at all"),
    ],
)
def test_a_suggestion_says(known: Sequence[str], expected: str) -> None:
    assert suggestion("nvidia.com", known, what="driver") == expected
