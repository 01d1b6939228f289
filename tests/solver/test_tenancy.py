"""What is said about a pod names nothing of other namespaces, and without inventory nothing that nodes publish."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import (
    Batch,
    Budget,
    ClaimId,
    Gang,
    GangId,
    Plan,
    Pod,
    PodId,
    Policy,
    PreemptionRules,
    Reason,
    ReasonCode,
    Snapshot,
    wording,
)
from tests.support import builders as b
from tests.support.preemption_cases import FINALIZER, NOW

DRIVER = "gpu.example.com"
TEAMS = ("team-a", "team-b")
RULES = PreemptionRules(is_enabled=True, frees_devices=True, scheduler_names=("dovetail",), now=NOW, most_victims=100)


class World:
    """
    A crowded cluster of two teams, in which every name holds a word that is nowhere else.

    Teams run, wait, preempt, share claims, form gangs, hold nodes and have nominations; and half of what they ask for
    is written wrongly, so that hints are given.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a test
        self.secrets: dict[str, list[str]] = {team: [] for team in TEAMS}
        self.inventory: list[str] = []
        self.nodes = [self._node(number) for number in range(self.random.randint(2, 4))]
        self.objects: list[Any] = [*self.nodes, b.gpu_class(), *map(self._slice, self.nodes)]
        self.running: list[Pod] = []
        self.free = [(node.name, index) for node in self.nodes for index in range(4)]
        for _ in range(self.random.randint(6, 14)):
            self._run(self.random.choice(TEAMS))
        self.waiting = [self._waits(self.random.choice(TEAMS)) for _ in range(self.random.randint(2, 8))]
        self.gangs = list(self._gangs())

    def name(self, team: str, word: str) -> str:
        made = f"{word}-{self.random.getrandbits(40):010x}"
        self.secrets[team].append(made)
        return made

    def thing(self, word: str) -> str:
        made = f"{word}-{self.random.getrandbits(40):010x}"
        self.inventory.append(made)
        return made

    def _node(self, _: int) -> Any:
        labels = {"zone": self.thing("zone"), f"example.com/{self.thing('key')}": "x"}
        return b.node(self.thing("node"), cpu=8, labels=labels)

    def _slice(self, node: Any) -> Any:
        devices = [
            b.device(
                f"gpu-{index}",
                attributes={"model": self.thing("model"), self.thing("attribute"): 1},
                capacities={"memory": "40Gi"},
            )
            for index in range(4)
        ]
        if self.random.random() < 0.15:
            return b.resource_slice(node.name, *devices, devices[0])
        return b.resource_slice(node.name, *devices)

    def _pod(self, team: str, claim: str = "", **more: Any) -> Pod:
        name = self.name(team, "pod")
        pod = b.pod(name, *((claim,) if claim else ()), namespace=team, cpu=self.random.randint(0, 3), **more)
        priorities = [0, 0, 0, 5] if "node_name" in more else [0, 5, 10]
        return replace(pod, priority=self.random.choice(priorities))

    def _run(self, team: str) -> None:
        node = self.random.choice(self.nodes).name
        there = [slot for slot in self.free if slot[0] == node]
        claim = self.name(team, "claim")
        pod = replace(self._pod(team, claim, node_name=node), started=NOW - 1000)
        if there and self.random.random() < 0.8:
            self.free.remove(there[0])
            held = b.held(claim, b.result("gpu", f"gpu-{there[0][1]}", node), node_name=node)
            reserved = (replace(b.consumer(pod.id.name), uid=pod.uid),)
            held = replace(held, id=ClaimId(team, claim), reserved_for=reserved, finalizers=(FINALIZER,))
            self.objects.append(held)
        else:
            pod = replace(pod, claims=())
        self.running.append(pod)

    def _waits(self, team: str) -> Pod:
        claim = self.name(team, "claim")
        selectors = self.random.choice(
            [
                *[()] * 8,
                (f'device.attributes["{DRIVER}"].model == "modle"',),
                (f'device.attributes["{DRIVER}"].typo == 1',),
                ("device.nonsense(",),
                (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0',),
            ]
        )
        request = b.request("gpus", count=self.random.randint(1, 4), selectors=selectors)
        self.objects.append(replace(b.claim(claim, request), id=ClaimId(team, claim)))
        pod = self._pod(team, claim)
        if self.random.random() < 0.1:
            pod = replace(pod, node_selector=(("zone", "zone-x"),))
        if self.random.random() < 0.2:
            pod = replace(pod, nominated_node_name=self.random.choice(self.nodes).name)
        return pod

    def _gangs(self) -> Iterator[Gang]:
        for team in TEAMS:
            own = [index for index, pod in enumerate(self.waiting) if pod.id.namespace == team][:2]
            if len(own) == 2 and self.random.random() < 0.5:
                gang = GangId(team, self.name(team, "gang"), "dovetail.dev")
                levels = (b.by_label("zone"),) if self.random.random() < 0.5 else ()
                for index in own:
                    self.waiting[index] = replace(self.waiting[index], gang=gang)
                yield Gang(id=gang, min_count=2, member_count=2, levels=levels)

    @property
    def snapshot(self) -> Snapshot:
        found = b.snapshot(*self.objects, *self.running)
        nominated = tuple(sorted((p for p in self.waiting if p.nominated_node_name), key=lambda pod: pod.id))
        return replace(found, nominated=nominated)

    def plan(self, *, tells_inventory: bool = True) -> Plan:
        pods = tuple(sorted(self.waiting, key=lambda pod: -pod.priority))
        overdue = tuple(pod.id for pod in pods if self.random.random() < 0.5)
        batch = Batch(pods=pods, gangs=tuple(self.gangs), overdue=overdue)
        policy = Policy(preemption=RULES, tells_inventory=tells_inventory)
        return solve(self.snapshot, batch, policy, Budget(seconds=60.0, deterministic_seconds=1.0))


def texts(plan: Plan) -> Iterator[tuple[PodId, str]]:
    """Everything that is said about a pod, with the pod that it is about."""
    for unplaced in plan.unplaced:
        yield from ((unplaced.pod, reason.message) for reason in unplaced.reasons)
    for preemption in plan.preemptions:
        yield from ((victim.pod, victim.message) for victim in preemption.victims)


SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_names_what_another_namespace_has(seed: int) -> None:
    world = World(seed)
    for pod, text in texts(world.plan()):
        for team, secrets in world.secrets.items():
            named = [each for each in secrets if each in text] if team != pod.namespace else []
            assert not named, f"{pod} reads {text!r}"


@pytest.mark.parametrize("seed", SEEDS)
def test_without_inventory_no_message_names_what_nodes_publish(seed: int) -> None:
    world = World(seed)
    for pod, text in texts(world.plan(tells_inventory=False)):
        named = [each for each in world.inventory if each in text]
        assert not named, f"{pod} reads {text!r}"
        assert "gpu-" not in text


def test_the_worlds_give_reason_to_name_both() -> None:
    codes: set[ReasonCode] = set()
    has_inventory = is_preempted_across = False
    for seed in SEEDS:
        world = World(seed)
        plan = world.plan()
        codes |= {reason.code for each in plan.unplaced for reason in each.reasons}
        has_inventory |= any(each in text for _, text in texts(plan) for each in world.inventory)
        is_preempted_across |= any("of another namespace" in text for _, text in texts(plan))
    assert has_inventory
    assert is_preempted_across
    assert {
        ReasonCode.PREEMPTING,
        ReasonCode.RESERVATION_PENDING,
        ReasonCode.DEVICES_NONE,
        ReasonCode.POOL_INVALID,
    } <= codes


def _hostile(count: int) -> Sequence[str]:
    return ("\x1b[2J" * count, "\u202e" * count, "\n" * count, "ü" * count, "\x00" * count)


@pytest.mark.parametrize("text", _hostile(100_000))
def test_a_user_s_text_is_cut_and_can_act_on_no_terminal(text: str) -> None:
    shown = wording.quoted(text)
    assert shown.isprintable()
    assert len(shown) <= wording.LONGEST_TEXT


def test_what_is_wrong_with_an_object_takes_little_of_a_message() -> None:
    claim = replace(b.claim("c"), invalid="\x1b]0;" + "x" * 200_000)
    plan = solve(b.snapshot(b.node("n"), claim), b.batch(b.pod("p", "c")), Policy(), Budget(seconds=10.0))
    (reason,) = plan.unplaced[0].reasons
    assert isinstance(reason, Reason)
    assert len(reason.message) < 1000
    assert reason.message.isprintable()
