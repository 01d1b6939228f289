"""A pod of eight among single ones at 95 % load is bound in the end, and which other scheduler would have bound it."""

import itertools
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

PATIENCE = 3.0
BOUND = 60.0
"""Seconds: what the pod waits until it is overdue, and what the longest of the pods of a node may take to end."""
REFERENCE = 15.0
"""Seconds for which the references are looked at; the pod would wait on for as long as the stream lasts."""
LIFE = (2.0, 7.0)


class Stream:
    """Pods of one device each that end after a while and are followed by others, so that 15 of 16 are asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.numbers = itertools.count()
        self.ends: dict[str, float] = {}
        self.waiting: set[str] = set()

    def step(self) -> dict[str, str]:
        """Let pods end and others come; give the bound pods."""
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
    path.write_text(f"{head}queue: {{starvationSeconds: {seconds}}}\n", encoding="utf-8")
    return f"--config={path}"


def fill(stream: Stream) -> None:
    """Wait until both nodes have pods of the stream."""
    wait_until(lambda: len(set(stream.step().values())) == 2)


def test_a_pod_that_is_passed_over_gets_a_node_within_the_bound(
    stream: Stream, start: Start, account: Path, tmp_path: Path
) -> None:
    start(account, configured(tmp_path, PATIENCE))
    fill(stream)
    stream.world.pod("big", template="eight")

    took = stream.until("big", BOUND)

    assert took is not None
    assert stream.world.problems() == []
    assert stream.step().keys() & stream.waiting == set()


def test_by_the_bare_count_it_waits_on(stream: Stream, start: Start, account: Path, tmp_path: Path) -> None:
    start(account, configured(tmp_path, 86_400))
    fill(stream)
    stream.world.pod("big", template="eight")

    assert stream.until("big", REFERENCE) is None


@pytest.fixture
def kube_scheduler(control_plane: ControlPlane) -> Iterator[str]:
    """kube-scheduler, for pods that name no other scheduler."""
    running = control_plane.start_kube_scheduler()
    yield "default-scheduler"
    running.stop()


def test_with_kube_scheduler_it_waits_on(stream: Stream, kube_scheduler: str) -> None:
    stream.world.scheduler = kube_scheduler
    fill(stream)
    stream.world.pod("big", template="eight")

    assert stream.until("big", REFERENCE) is None


def test_a_pod_that_is_kept_out_by_a_hold_reads_so(world: World, start: Start, account: Path, tmp_path: Path) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    world.template("two", count=2)
    start(account, configured(tmp_path, 1.0))
    world.pod("first")
    wait_until(lambda: "first" in world.bound())
    world.pod("big", template="two")
    wait_until(lambda: bool(world.condition("big")))
    world.pod("second")
    wait_until(lambda: "second" in world.bound())
    time.sleep(1.5)
    world.delete_pod("second")
    wait_until(lambda: "reserved for it" in str(world.condition("big").get("message", "")), seconds=90.0)

    world.pod("third")
    wait_until(lambda: "reserved for a pod" in str(world.condition("third").get("message", "")))
    assert world.condition("third")["reason"] == "NodeReserved"

    world.delete_pod("first")
    wait_until(lambda: "big" in world.bound())
    world.delete_pod("big")
    wait_until(lambda: "third" in world.bound())
    assert world.problems() == []


def test_what_was_held_is_held_again_after_a_crash(world: World, start: Start, account: Path, tmp_path: Path) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    world.template("two", count=2)
    configuration = configured(tmp_path, 1.0)
    running = start(account, configuration)
    world.pod("first")
    wait_until(lambda: "first" in world.bound())
    world.pod("big", template="two")
    wait_until(lambda: bool(world.condition("big")))
    since = world.condition("big")["lastTransitionTime"]
    world.pod("second")
    wait_until(lambda: "second" in world.bound())
    time.sleep(2.0)  # by the kubelet's whole seconds, the second one began after the big one found no room
    world.delete_pod("second")
    wait_until(lambda: "reserved for it" in str(world.condition("big").get("message", "")), seconds=90.0)
    os.kill(running.pid, signal.SIGKILL)
    wait_until(lambda: not running.is_running())
    world.pod("third")
    world.pod("fourth")

    start(account, configuration)

    wait_until(lambda: all(world.condition(name).get("reason") == "NodeReserved" for name in ("third", "fourth")))
    assert world.condition("big")["lastTransitionTime"] == since
    assert world.bound().keys() == {"first"}
    world.delete_pod("first")
    wait_until(lambda: "big" in world.bound())


def test_commands_answer_as_the_scheduler_where_a_node_is_reserved(
    world: World, start: Start, own_lease: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    world.template("two", count=2)
    configuration = tmp_path / "reserving.yaml"
    configuration.write_text(f"{own_lease.read_text()}queue: {{starvationSeconds: 1}}\n", encoding="utf-8")
    running = start(world.plane.kubeconfig, f"--config={configuration}", leader_elect=True)
    world.pod("first")
    wait_until(lambda: "first" in world.bound())
    world.pod("big", template="two")
    wait_until(lambda: bool(world.condition("big")))
    world.pod("second")
    wait_until(lambda: "second" in world.bound())
    time.sleep(1.5)
    world.delete_pod("second")
    wait_until(lambda: "reserved for it" in str(world.condition("big").get("message", "")), seconds=90.0)
    world.pod("third")
    wait_until(lambda: world.condition("third").get("reason") == "NodeReserved")
    (node,), big = world.nodes, f"{world.namespace}/big"
    assert f"node {node} is reserved for pod {big}, which has waited longer" in world.condition("third")["message"]

    def ask(*words: str) -> tuple[int, Any]:
        where = (f"--dovetail-namespace={world.namespace}", f"--config={configuration}")
        status = m.run(*words, f"--kubeconfig={world.plane.kubeconfig}", *where, "-o", "json")
        return status, json.loads(capsys.readouterr().out)

    reserved = [{"nodes": [node], "pod": big, "gangSize": 1}]
    wait_until(lambda: ask("explain", "third", "-n", world.namespace)[1]["reserved"] == reserved)
    assert ask("explain", "third", "-n", world.namespace)[0] == 1
    assert ask("free", f"node/{node}")[1]["reserved"] == 1
    assert sum(each["reserved"] for each in ask("devices", f"node/{node}")[1]["items"]) == 1
    (found,) = (each for each in ask("status")[1]["findings"] if each["about"] == "reservations")
    assert found["message"] == f"1 node is reserved for 1 pod that waited too long: {node}"

    world.delete_pod("big")
    wait_until(lambda: "third" in world.bound())
    events = [json.loads(line) for line in running.log.read_text().splitlines() if line.startswith("{")]
    told = [each["event"] for each in events if each["event"] in {"node_reserved", "reservation_ended"}]
    assert told == ["node_reserved", "reservation_ended"]


def test_a_namespace_that_does_not_exist_is_said(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    access = f"--kubeconfig={world.plane.kubeconfig}"
    said = f"namespace {world.namespace}x does not exist: did you mean {world.namespace}?"
    for words in (("devices",), ("explain", "p"), ("queue",), ("devices", "pod/p"), ("devices", "resourceclaim/c")):
        assert m.run(*words, "-n", f"{world.namespace}x", access) == 2, words
        printed = capsys.readouterr()
        assert said in printed.err, words
        assert printed.out == ""


def test_of_a_pod_or_claim_that_does_not_exist_no_devices_are_looked_for(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    access = f"--kubeconfig={world.plane.kubeconfig}"
    world.pod("trainer")
    for name, meant in (("trianer", ": did you mean trainer?"), ("zzz", "")):
        assert m.run("devices", f"pod/{name}", "-n", world.namespace, access) == 2
        assert capsys.readouterr().err.endswith(f"pod {world.namespace}/{name} does not exist{meant}\n")
    assert m.run("devices", "resourceclaim/zzz", "-n", world.namespace, access) == 2
    assert capsys.readouterr().err.endswith(f"resourceclaim {world.namespace}/zzz does not exist\n")
    assert m.run("devices", "pod/trainer", "-n", world.namespace, access) == 0
    assert m.run("queue", "-n", world.namespace, access) == 0
