"""`make gpu` with cards that only a description has: their device nodes are one that every machine has."""

import re
from typing import Any

import pytest
import yaml

from e2e.fleet.shape import Version, device
from e2e.nodes import gpu, nvml
from e2e.nodes.programs import Programs

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

FULL = "/dev/full"
CARDS = tuple(
    device(f"gpu-{minor}", {"type": "gpu", "driverVersion": Version("580.105.8")}, {"memory": "81559Mi"})
    for minor in range(2)
)


def cards() -> nvml.Cards:
    edits: dict[str, Any] = {
        f"gpu-{minor}": {"deviceNodes": [{"path": f"/dev/{name}", "hostPath": FULL} for name in names]}
        for minor, names in enumerate((("nvidia0", "nvidiactl"), ("nvidia1", "nvidiactl")))
    }
    return nvml.Cards(CARDS, edits, ("card 2 is left out: GPU is lost",))


def test_it_prints_the_slice_and_what_the_container_opened(
    programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    del programs  # built by now
    assert gpu.run(cards()) == 0
    first, _, printed = capsys.readouterr().out.partition("\n")
    assert first == "card 2 is left out: GPU is lost"
    text, _, said = printed.partition("\n\n")
    has, agreed = said.splitlines()
    assert re.fullmatch(r"the container has gpu-(\d) and opened /dev/nvidia\1, /dev/nvidiactl", has)
    assert agreed == "container, claim and driver agree"
    (published,) = yaml.safe_load_all(text)
    assert (published["kind"], published["spec"]["driver"], published["spec"]["nodeName"]) == (
        *("ResourceSlice", "gpu.nvidia.com"),
        gpu.NODE,
    )
    assert published["spec"]["devices"] == list(CARDS)
