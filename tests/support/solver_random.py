"""
Small random clusters and batches over every feature of the solver, from a source of randomness that is handed in.

Kept small enough for `tests.support.bruteforce`: at most three nodes, a handful of devices, four pods. Each case
draws a few features; within them everything is allowed to be odd (a missing attribute, a taint, a full device).
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from solver.domain import (
    Batch,
    Claim,
    Constraint,
    Device,
    DeviceClass,
    DeviceResult,
    DeviceTaintRule,
    Node,
    NodeScope,
    Pod,
    Request,
    ResourceSlice,
    Snapshot,
    SubRequest,
    Toleration,
)
from tests.support import builders as b

Item = TypeVar("Item")

DOMAIN = "x.io"
OTHER = "other.example.com"
SHARED = "shared.example.com"
FEATURES = (
    "match",
    "distinct",
    "lists",
    "shares",
    "counters",
    "first-available",
    "all",
    "admin",
    "taints",
    "wide",
    "per-device",
    "pools",
    "held",
    "shared-claims",
    "allocated",
    "resources",
    "priorities",
)


class Case(NamedTuple):
    snapshot: Snapshot
    batch: Batch


def case(source: Random, features: Sequence[str] | None = None) -> Case:
    """Draw a cluster and a batch; without `features` some are drawn too."""
    chosen = frozenset(
        source.sample(FEATURES, k=source.randint(1, 4)) if features is None else features
    )
    return _Drawing(source, chosen).case()


class _Drawing:
    """One case in the making."""

    def __init__(self, source: Random, features: frozenset[str]) -> None:
        self.source = source
        self.features = features
        self.nodes = [f"n{index}" for index in range(source.randint(1, 3))]
        self.slices: list[ResourceSlice] = []

    def case(self) -> Case:
        classes = [
            b.gpu_class(),
            b.device_class("small", "device.attributes['x.io'].size == 'small'"),
            b.device_class("any"),
            b.device_class("shared", driver=SHARED),
        ]
        for name in self.nodes:
            self._local_slices(name)
        if self._has("wide"):
            self._wide_slices()
        held = self._held() if self._has("held") else []
        pods, claims = self._pods()
        objects: list[Node | ResourceSlice | DeviceClass | DeviceTaintRule | Claim | Pod] = [
            *(self._node(name) for name in self.nodes),
            *self.slices,
            *classes,
            *held,
            *claims,
            *self._rules(),
        ]
        return Case(b.snapshot(*objects), b.batch(*pods))

    def _has(self, feature: str) -> bool:
        return feature in self.features

    def _often(self, percent: int) -> bool:
        return self.source.random() * 100 < percent

    def _one(self, *items: Item) -> Item:
        return self.source.choice(items)

    def _node(self, name: str) -> Node:
        return b.node(
            name,
            cpu=self._one(2, 3, 64) if self._has("resources") else 64,
            pods=self._one(1, 2, 110) if self._has("resources") else 110,
            labels={"zone": self._one("a", "b")},
        )

    def _rules(self) -> list[DeviceTaintRule]:
        if not self._has("taints") or self._often(60):
            return []
        return [b.taint_rule("rule", b.taint("rule"), pool=self._one(*self.nodes), device_name=self._one(None, "d0"))]

    # Devices

    def _local_slices(self, name: str) -> None:
        devices = [self._device(f"d{index}") for index in range(self.source.randint(1, 3))]
        if self._has("counters"):
            self.slices += self._with_counters(name, devices)
            return
        generation, slice_count = 1, 1
        if self._has("pools") and self._often(40):
            slice_count = self._one(1, 2)
            if self._often(50):
                self.slices.append(b.resource_slice(name, *devices, name=f"{name}-old", generation=0))
            if self._often(20):
                devices.append(self._device("d0"))
        self.slices.append(b.resource_slice(name, *devices, generation=generation, slice_count=slice_count))
        if self._has("shares"):
            shared = [self._shareable(f"s{index}") for index in range(self.source.randint(1, 2))]
            self.slices.append(b.resource_slice(name, *shared, driver=SHARED))

    def _with_counters(self, name: str, devices: list[Device]) -> list[ResourceSlice]:
        budget = self.source.randint(1, 4)
        drawing = [
            replace(
                device,
                consumes_counters=b.device("x", consumes={"set": {"slots": self.source.randint(1, 3)}}).consumes_counters,
            )
            if self._often(80)
            else device
            for device in devices
        ]
        if self._has("shares"):
            drawing = [
                replace(each, allow_multiple_allocations=self._often(50), capacities=self._shareable("x").capacities)
                for each in drawing
            ]
        return [
            b.resource_slice(name, *drawing, slice_count=2),
            b.resource_slice(name, slice_count=2, counter_sets={"set": {"slots": budget}}),
        ]

    def _device(self, name: str) -> Device:
        taints = [b.taint(self._one("t", "u"), effect=self._one("NoSchedule", "NoExecute", "None"))]
        return b.device(
            name,
            attributes=self._attributes(),
            capacities={"memory": self._one("4Gi", "8Gi")},
            taints=taints if self._has("taints") and self._often(40) else (),
            binds_to_node=self._has("wide") and self._often(20),
        )

    def _attributes(self) -> dict[str, b.Attribute]:
        found: dict[str, b.Attribute] = {f"{DOMAIN}/size": self._one("small", "large")}
        for key in ("root", "numa"):
            if self._often(85):
                found[f"{DOMAIN}/{key}"] = self._one("p", "q") if self._often(90) else self._one(1, 2)
        if self._has("lists"):
            for key in ("root", "numa"):
                if self._often(60):
                    found[f"{DOMAIN}/{key}"] = self._one(("p", "q"), ("q",), ("p", "r"), ())
        if self._often(8):
            del found[f"{DOMAIN}/size"]
        return found

    def _shareable(self, name: str) -> Device:
        return b.device(
            name,
            attributes=self._attributes(),
            capacities={
                "memory": self._one(
                    b.capacity("8Gi"),
                    b.capacity("8Gi", default="2Gi"),
                    b.capacity("8Gi", default="2Gi", minimum="2Gi", step="2Gi"),
                    b.capacity("8Gi", default="4Gi", valid_values=("4Gi", "8Gi")),
                ),
                **({"engines": b.capacity(3, default=1)} if self._often(40) else {}),
            }
            if self._often(85)
            else {},
            is_shareable=True,
        )

    def _scope(self) -> NodeScope:
        return self._one(
            b.scope(all_nodes=True),
            b.scope(selector=b.node_selector(zone="a")),
            b.scope(selector=b.node_selector(zone="b")),
            b.scope(self._one(*self.nodes)),
        )

    def _wide_slices(self) -> None:
        make = self._shareable if self._has("shares") and self._often(50) else self._device
        devices = [make(f"w{index}") for index in range(self.source.randint(1, 3))]
        at = self._scope()
        if self._has("per-device"):
            at, devices = b.scope(per_device=True), [replace(each, scope=self._scope()) for each in devices]
        driver = SHARED if devices[0].allow_multiple_allocations else OTHER
        if self._has("counters") and self._often(60):
            drawing = b.device("x", consumes={"set": {"slots": 1}}).consumes_counters
            devices = [replace(each, consumes_counters=drawing) for each in devices]
            self.slices.append(
                b.resource_slice("wide", driver=driver, slice_count=2, counter_sets={"set": {"slots": 2}}, at=at)
            )
            self.slices.append(b.resource_slice("wide", *devices, driver=driver, slice_count=2, at=at))
            return
        slice_count = 2 if self._has("pools") and self._often(30) else 1
        self.slices.append(b.resource_slice("wide", *devices, driver=driver, at=at, slice_count=slice_count))

    # Claims

    def _held(self) -> list[Claim]:
        found = []
        devices = [(each, device) for each in self.slices if each.generation == 1 for device in each.devices]
        for number, (each, device) in enumerate(self.source.sample(devices, k=min(len(devices), 2))):
            is_share = device.allow_multiple_allocations != self._often(10)
            amounts = {name: self._one(1, "2Gi") for name, _ in device.capacities}
            taken = b.result(
                "gpu",
                device.name,
                each.pool,
                driver=each.driver,
                is_admin=self._often(20),
                share_id=b.share_id(number) if is_share else "",
                consumed=amounts if is_share else None,
            )
            found.append(b.held(f"held-{number}", taken, node_name=each.scope.node_name))
        return found

    def _pods(self) -> tuple[list[Pod], list[Claim]]:
        pods, claims = [], []
        count = self.source.randint(1, 4)
        for number in range(count):
            names = []
            for index in range(self._one(1, 1, 1, 2)):
                made = self._claim(f"c{number}-{index}")
                claims.append(made)
                names.append(made.id.name)
            if self._has("shared-claims") and claims and self._often(50):
                names = [claims[0].id.name, *names[1:]]
            pods.append(
                b.pod(
                    f"p{number}",
                    *names,
                    cpu=self._one(0, 1, 2) if self._has("resources") else 0,
                    priority=self._one(0, 10) if self._has("priorities") else 0,
                    node_selector={"zone": "a"} if self._has("resources") and self._often(20) else {},
                )
            )
        return pods, claims

    def _claim(self, name: str) -> Claim:
        if self._has("allocated") and self._often(40):
            devices = [(each, device) for each in self.slices for device in each.devices if each.generation == 1]
            each, device = self._one(*devices)
            taken: DeviceResult = b.result(
                "gpu",
                device.name,
                each.pool,
                driver=each.driver,
                share_id=b.share_id(77) if device.allow_multiple_allocations else "",
                consumed=dict.fromkeys(dict(device.capacities), 1) if device.allow_multiple_allocations else None,
            )
            allocation = b.allocation(taken, node_name=each.scope.node_name, timestamp=b.TIMESTAMP)
            return b.claim(name, b.request("gpu"), allocation=allocation)
        requests = [self._request(f"r{index}") for index in range(self._one(1, 1, 2, 3))]
        made = b.claim(name, *requests, constraints=self._constraints(requests))
        return replace(made, requests=()) if self._often(3) else made

    def _request(self, name: str) -> Request:
        if self._has("first-available") and self._often(60):
            return b.first_available(name, *(self._alternative(f"a{i}") for i in range(self.source.randint(1, 3))))
        return Request(name=name, alternatives=(self._alternative(""),))

    def _alternative(self, name: str) -> SubRequest:
        mode = "All" if self._has("all") and self._often(35) else "ExactCount"
        drivers = ["gpu", "small", "any"]
        if self._has("shares"):
            drivers += ["shared", "shared", "any"]
        tolerations: tuple[Toleration, ...] = ()
        if self._has("taints") and self._often(40):
            tolerations = (b.toleration(self._one("t", "rule", "")),)
        device_class = self._one(*drivers)
        return b.alternative(
            name,
            device_class,
            count=1 if mode == "All" else self._one(1, 1, 1, 2, 3),
            selectors=("device.attributes['x.io'].root == 'p'",) if self._often(15) else (),
            mode=mode,
            is_admin=self._has("admin") and not name and self._often(50),
            tolerations=tolerations,
            capacity={"memory": self._one(0, "1Gi", "3Gi", "5Gi", "16Gi")}
            if self._has("shares") and self._often(60)
            else None,
        )

    def _constraints(self, requests: list[Request]) -> list[Constraint]:
        found = []
        names = [request.name for request in requests]
        names += [f"{each.name}/{sub.name}" for each in requests for sub in each.alternatives if sub.name]
        for feature, make in (("match", b.match), ("distinct", b.distinct)):
            for _ in range(self.source.randint(1, 2) if self._has(feature) else 0):
                covered = self.source.sample(names, k=self.source.randint(0, len(names)))
                found.append(make(f"{DOMAIN}/{self._one('root', 'numa')}", *covered))
        return found
