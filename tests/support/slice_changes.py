"""Hypothesis strategies for clusters whose slices, devices, nodes and taint rules come, go and change."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from hypothesis import strategies as st
from msgspec import structs

from solver.domain import Claim, Device, DeviceTaintRule, Node, NodeAllocatableMapping, ResourceSlice, Snapshot
from tests.support import builders as b
from tests.support.strategies import DRIVERS, NUMA, Situation, situations

T = TypeVar("T")
Change = Callable[[Device], Device]


def with_attribute(device: Device, name: str, value: b.Attribute | None) -> Device:
    others = tuple(item for item in device.attributes if item[0] != name)
    added = () if value is None else ((name, b.attribute(value)),)
    return structs.replace(device, attributes=tuple(sorted((*others, *added), key=lambda item: item[0])))


_TAKES = (NodeAllocatableMapping(resource="cpu", allocation_multiplier=b.quantity("2")),)
CHANGES: dict[str, Change] = {
    "taint": lambda device: structs.replace(device, taints=(b.taint("hot"),)),
    "no taint": lambda device: structs.replace(device, taints=()),
    "numa 0": lambda device: with_attribute(device, NUMA, 0),
    "numa 1": lambda device: with_attribute(device, NUMA, 1),
    "no numa": lambda device: with_attribute(device, NUMA, None),
    "numa as a list": lambda device: with_attribute(device, NUMA, (0, 1)),
    "model": lambda device: with_attribute(device, "model", "A"),
    "nothing": structs.replace,
    "no capacity": lambda device: structs.replace(device, capacities=()),
    "more capacity": lambda device: structs.replace(device, capacities=(("memory", b.capacity(9)),)),
    "bindsToNode": lambda device: structs.replace(device, binds_to_node=not device.binds_to_node),
    "binding conditions": lambda device: structs.replace(device, binding_conditions=("Ready",)),
    "takes cpu": lambda device: structs.replace(device, node_allocatable=_TAKES),
    "takes nothing": lambda device: structs.replace(device, node_allocatable=()),
    "no counters": lambda device: structs.replace(device, consumes_counters=()),
    "another name": lambda device: structs.replace(device, name=f"{device.name}x"),
}
RULES: tuple[DeviceTaintRule, ...] = (
    b.taint_rule("device", b.taint("hot"), driver=DRIVERS[0], device_name="d0"),
    b.taint_rule("everything", b.taint("warm")),
    b.taint_rule("nothing", b.taint("cold"), pool="nowhere"),
    b.taint_rule("pool", b.taint("cold"), pool="n0"),
)
_POOLS = ("a", "n0", "n1", "wide", "z")
_NODE = b.node("n3", cpu=3, pods=3, labels={"rack": "a"})


@st.composite
def histories(draw: st.DrawFn) -> tuple[Situation, list[Snapshot]]:
    """Draw a situation, and the same cluster after changes; what is gone may come again."""
    situation = draw(situations(most_pods=3))
    snapshots, seen = [situation.snapshot], dict.fromkeys(situation.snapshot.slices)
    for _ in range(draw(st.integers(1, 5))):
        last = snapshots[-1]
        slices = last.slices
        for _ in range(draw(st.integers(0, 2))):
            slices = draw(_changed(slices, list(seen)))
            seen |= dict.fromkeys(slices)
        snapshots.append(
            structs.replace(
                last,
                slices=slices,
                taint_rules=draw(_seldom(last.taint_rules, _rules())),
                nodes=draw(_seldom(last.nodes, _nodes(situation.snapshot.nodes))),
                claims=draw(_seldom(last.claims, _claims(situation.snapshot, list(seen)))),
            )
        )
    return situation, snapshots


def _seldom(same: tuple[T, ...], other: st.SearchStrategy[tuple[T, ...]]) -> st.SearchStrategy[tuple[T, ...]]:
    """Draw something else in one of four."""
    return st.integers(0, 3).flatmap(lambda number: st.just(same) if number else other)


def _rules() -> st.SearchStrategy[tuple[DeviceTaintRule, ...]]:
    found = st.lists(st.sampled_from(RULES), unique=True, max_size=2)
    return found.map(lambda rules: tuple(sorted(rules, key=lambda each: each.name)))


def _nodes(nodes: tuple[Node, ...]) -> st.SearchStrategy[tuple[Node, ...]]:
    return st.sampled_from((nodes, nodes[1:], (*nodes, _NODE), tuple(map(structs.replace, nodes))))


@st.composite
def _claims(draw: st.DrawFn, first: Snapshot, seen: list[ResourceSlice]) -> tuple[Claim, ...]:
    """Draw claims that hold devices, which may be published now, or have been."""
    devices = sorted({(each.driver, each.pool, device.name) for each in seen for device in each.devices})
    held = list[Claim]()
    for number in range(draw(st.integers(0, 3)) if devices else 0):
        driver, pool, name = draw(st.sampled_from(devices))
        share = b.share_id(number) if draw(st.booleans()) else ""
        held.append(b.held(f"late-{number}", b.result("r0", name, pool, driver=driver, share_id=share)))
    return tuple(sorted((*first.claims, *held), key=lambda each: each.id))


@st.composite
def _changed(
    draw: st.DrawFn, slices: tuple[ResourceSlice, ...], seen: list[ResourceSlice]
) -> tuple[ResourceSlice, ...]:
    """Change, remove or add one slice, or publish a whole pool again."""
    kind = draw(st.sampled_from(("again", "goes", "comes", "new", "pool", "counters", "device goes", "device comes")))
    if kind == "comes":
        return _with(slices, [draw(st.sampled_from(seen))] if seen else ())
    if kind == "new" or not slices:
        return _with(slices, [draw(_new())])
    with_counters = tuple(each for each in slices if each.counter_sets)
    chosen = draw(st.sampled_from(with_counters if kind == "counters" and with_counters else slices))
    rest = tuple(each for each in slices if each is not chosen)
    match kind:
        case "goes":
            return rest
        case "device goes":
            return _in_place(slices, chosen, structs.replace(chosen, devices=chosen.devices[1:]))
        case "device comes":
            more = (*chosen.devices, b.device("more", attributes={"model": "A"}))
            return _in_place(slices, chosen, structs.replace(chosen, devices=more if len(more) < 5 else more[:1]))
        case "counters":
            sets = b.resource_slice("x", counter_sets={"card": {"slices": draw(st.integers(1, 4))}}).counter_sets
            return _in_place(slices, chosen, structs.replace(chosen, counter_sets=sets if chosen.counter_sets else ()))
        case "pool":
            return draw(_published_again(slices, chosen))
        case _:
            return _in_place(slices, chosen, draw(_again(chosen)))


def _in_place(slices: tuple[ResourceSlice, ...], was: ResourceSlice, now: ResourceSlice) -> tuple[ResourceSlice, ...]:
    return tuple(now if each is was else each for each in slices)


def _with(slices: Iterable[ResourceSlice], added: Iterable[ResourceSlice]) -> tuple[ResourceSlice, ...]:
    """Add slices, in the place of those of the same names."""
    found = {each.name: each for each in (*slices, *added)}
    return tuple(found[name] for name in sorted(found))


@st.composite
def _new(draw: st.DrawFn) -> ResourceSlice:
    pool, driver = draw(st.sampled_from(_POOLS)), draw(st.sampled_from((*DRIVERS, "aaa.example.com")))
    at = draw(st.sampled_from((b.scope("n0"), b.scope("n1"), b.scope("n3"), b.scope("n0"), b.scope(all_nodes=True))))
    devices = [b.device(f"e{number}", attributes={NUMA: number}) for number in range(draw(st.integers(0, 3)))]
    generation, count = draw(st.sampled_from((1, 1, 2))), draw(st.sampled_from((1, 1, 2)))
    return b.resource_slice(pool, *devices, driver=driver, at=at, generation=generation, slice_count=count)


@st.composite
def _published_again(
    draw: st.DrawFn, slices: tuple[ResourceSlice, ...], chosen: ResourceSlice
) -> tuple[ResourceSlice, ...]:
    """Publish a pool in a new generation, whole or without a slice, and with a slice more or as many as before."""
    generation = chosen.generation + 1
    again = [structs.replace(each, generation=generation) for each in slices if each.pool_id == chosen.pool_id]
    if draw(st.booleans()):
        name = f"{chosen.name}+"
        again.append(structs.replace(again[0], name=name, devices=(b.device(f"m{generation}"),), counter_sets=()))
    count = len(again) + draw(st.sampled_from((0, 0, 1)))
    return _with(slices, (structs.replace(each, slice_count=count) for each in again))


@st.composite
def _again(draw: st.DrawFn, each: ResourceSlice) -> ResourceSlice:
    chosen = [draw(st.sampled_from(sorted(CHANGES))) if draw(st.booleans()) else "nothing" for _ in each.devices]
    devices = tuple(CHANGES[name](device) for name, device in zip(chosen, each.devices, strict=True))
    scopes = (each.scope, each.scope, b.scope("n0"), b.scope("n1")) if not each.scope.per_device else (each.scope,)
    generation = each.generation + draw(st.sampled_from((0, 0, 0, 1)))
    return structs.replace(
        each,
        devices=devices,
        generation=generation,
        scope=draw(st.sampled_from(scopes)),
        skip_node_operations=draw(st.sampled_from((each.skip_node_operations, each.skip_node_operations, (), ("*",)))),
    )
