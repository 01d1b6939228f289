"""A pod of eight among a stream of single ones at 95 % load is bound in the end, and who else would have bound it."""

import itertools
import time
from pathlib import Path

import pytest

from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

PATIENCE = 3.0
BOUND = 60.0
"""Seconds: what the pod waits until it is overdue, and what the longest of the pods of a node may take to end."""
LIFE = (2.0, 7.0)


class Stream:
    """Pods of one device each that end after a while and are followed by others, so that 15 of 16 are asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.numbers = itertools.count()
        self.ends: dict[str, float] = {}
        self.waiting: set[str] = set()

    def step(self) -> dict[str, str]:
        """Let pods end and others come; give who is bound."""
        now, bound = time.monotonic(), self.world.bound()
        for name in self.waiting & bound.keys():
            self.waiting.discard(name)
            share = (int(name[1:]) * 7919 % 101) / 100
            self.ends[name] = now + LIFE[0] + share * (LIFE[1] - LIFE[0])
        for name in [name for name, end in self.ends.items() if end <= now]:
            self.world.delete_pod(name)
            del self.ends[name]
        while len(self.ends) + len(self.waiting) < 15:
            name = f"s{next(self.numbers)}"
            self.world.pod(name)
            self.waiting.add(name)
        return bound

    def until(self, name: str, seconds: float) -> float | None:
        """Go on until a pod is bound; give the seconds it took."""
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            if name in self.step():
                return time.monotonic() - started
            time.sleep(0.2)
        return None


@pytest.fixture
def stream(world: World) -> Stream:
    world.add_nodes(2, devices=8)
    world.template()
    world.template("eight", count=8)
    return Stream(world)


def configured(folder: Path, seconds: float) -> str:
    path = folder / "config.yaml"
    head = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
    path.write_text(f"{head}queue: {{maxPassedOverSeconds: {seconds}}}\n", encoding="utf-8")
    return f"--config={path}"


def fill(stream: Stream) -> None:
    """Wait until both nodes have pods of the stream."""
    wait_until(lambda: len(set(stream.step().values())) == 2)


def test_a_pod_that_is_passed_over_gets_a_node_within_the_bound(stream: Stream, start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "settings"
    folder.mkdir()
    start(None, configured(folder, PATIENCE)) if False else None  # noqa: B018
    begin(start, configured(folder, PATIENCE))
    fill(stream)
    stream.world.pod("big", template="eight")

    took = stream.until("big", BOUND)

    assert took is not None
    assert stream.world.problems() == []
