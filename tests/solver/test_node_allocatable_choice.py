"""Which of several devices a pod gets that take different amounts of their node (KEP-5517)."""

import dataclasses
import random

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import Claim, NodeAllocatableMapping, Pod, Policy, ResourceSlice
from solver.domain.quantity import parse
from tests.solver.test_node_allocatable import checked, using
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()
TWO = (NodeAllocatableMapping(resource="cpu", allocation_multiplier=parse("2")),)
LEAVING = dataclasses.replace(s.PATIENT, may_defer=True)


def devices(node: str, **cpu: str) -> ResourceSlice:
    """Devices that take so much cpu of their node; `0` takes nothing."""
    pool = b.resource_slice(node, *(b.device(name) for name in cpu))
    return replace(
        pool,
        devices=tuple(
            each
            if cpu[each.name] == "0"
            else replace(
                each,
                node_allocatable=(NodeAllocatableMapping(resource="cpu", allocation_multiplier=parse(cpu[each.name])),),
            )
            for each in pool.devices
        ),
    )


def used(device: str, node: str = "n1") -> Claim:
    """A claim that holds a device."""
    return b.claim(
        f"held-{device}", b.request("r"), allocation=b.allocation(b.result("r", device, node), node_name=node)
    )


def waiting(count: int = 1, cpu: int = 0) -> tuple[Pod, Claim]:
    return using(b.pod("p", "c", cpu=cpu)), b.claim("c", b.request("r", count=count))


def test_devices_in_use_that_take_nothing_spare_no_free_device() -> None:
    pod, claim = waiting()
    plan = checked(b.node("n1", cpu=8), devices("n1", plain="0", taking="2"), GPU, used("plain"), claim, pods=[pod])
    assert s.nodes_of(plan) == {"p": "n1"}


def test_a_device_without_counters_left_spares_no_other() -> None:
    """The one that takes nothing shares a counter with one in use: no pod can have it."""
    pool = devices("n1", plain="0", other="0", taking="2")
    plain, other, taking = pool.devices
    pair = [b.device(each.name, consumes={"card": {"slots": 1}}) for each in (plain, other)]
    pool = b.resource_slice("n1", *pair, taking, counter_sets={"card": {"slots": 1}})
    pod, claim = waiting()
    plan = checked(b.node("n1", cpu=8), pool, GPU, used("other"), claim, pods=[pod])
    assert s.nodes_of(plan) == {"p": "n1"}


def test_a_gang_gets_all_devices_of_a_node() -> None:
    """One takes nothing, and is enough for each member, but not for both."""
    gang = [b.member(using(b.pod(f"p{each}", f"c{each}")), "g") for each in range(2)]
    claims = [b.claim(f"c{each}", b.request("r")) for each in range(2)]
    snapshot = b.snapshot(b.node("n1", cpu=8), devices("n1", plain="0", taking="2"), GPU, claims)
    plan = solve(snapshot, b.batch(*gang, gangs=[b.gang("g", 2)]), Policy(), s.PATIENT)
    assert len(plan.placements) == 2


def test_a_larger_device_in_use_keeps_no_pod_from_a_smaller_one() -> None:
    pod, claim = waiting()
    plan = checked(
        b.node("n1", cpu=8),
        devices("n1", large="6", small="2"),
        GPU,
        used("large"),
        claim,
        pods=[pod, b.pod("other", cpu=5)],
    )
    assert s.nodes_of(plan) == {"p": "n1", "other": "n1"}


def test_a_pod_gets_the_device_for_which_its_node_has_room() -> None:
    pod, claim = waiting()
    running = b.pod("running", cpu=5, node_name="n1")
    plan = checked(b.node("n1", cpu=8), devices("n1", large="6", small="2"), GPU, running, claim, pods=[pod])
    assert s.nodes_of(plan) == {"p": "n1"}


def test_a_request_for_several_devices_gets_those_for_which_there_is_room() -> None:
    pod, claim = waiting(count=2)
    plan = checked(b.node("n1", cpu=8), devices("n1", large="6", one="2", two="2", three="2"), GPU, claim, pods=[pod])
    assert s.nodes_of(plan) == {"p": "n1"}


def test_a_linked_request_is_left_the_device_that_its_constraint_needs() -> None:
    """Enough devices take nothing, but only the one that does stands at the root of the other request's device."""
    root = "example.com/root"
    pool = devices("n1", plain="0", taking="2")
    roots = {"plain": "x", "taking": "y"}
    pool = replace(
        pool, devices=tuple(b.device(each.name, attributes={root: roots[each.name]}) for each in pool.devices)
    )
    pool = replace(pool, devices=(pool.devices[0], replace(pool.devices[1], node_allocatable=TWO)))
    nics = b.resource_slice("n1", b.device("nic", attributes={root: "y"}), driver="nic.example.com")
    claim = b.claim("c", b.request("r"), b.request("n", "nic"), constraints=[b.match(root)])
    nic_class = b.device_class("nic", "device.driver == 'nic.example.com'")
    plan = checked(b.node("n1", cpu=8), pool, nics, GPU, nic_class, claim, pods=[using(b.pod("p", "c"))])
    assert s.nodes_of(plan) == {"p": "n1"}


def test_pods_that_fit_once_it_is_known_what_others_take_are_decided_again() -> None:
    """Both are charged for the large device; together they fit."""
    pods = [using(b.pod(f"p{each}", f"c{each}")) for each in range(2)]
    claims = [b.claim(f"c{each}", b.request("r")) for each in range(2)]
    snapshot = b.snapshot(b.node("n1", cpu=8), devices("n1", large="6", small="2"), GPU, claims)
    batch = b.batch(*pods)

    plan = solve(snapshot, batch, Policy(), LEAVING)
    assert len(plan.placements) == 1
    assert len(s.later(plan)) == 1
    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    assert len(plan.unplaced) == 1


@pytest.mark.parametrize("is_used", [True, False], ids=["in use", "too large for what is left"])
def test_an_alternative_that_nobody_can_get_keeps_no_pod_from_the_next(*, is_used: bool) -> None:
    large, small = (f"device.attributes['{b.GPU_DRIVER}'].size == '{size}'" for size in ("large", "small"))
    pool = devices("n1", large="6", small="2")
    sized = [b.device(each.name, attributes={"size": each.name}) for each in pool.devices]
    pairs = zip(sized, pool.devices, strict=True)
    pool = replace(pool, devices=tuple(replace(one, node_allocatable=other.node_allocatable) for one, other in pairs))
    claim = b.claim(
        "c", b.first_available("r", b.alternative("a", selectors=[large]), b.alternative("b", selectors=[small]))
    )
    running = b.pod("running", cpu=5, node_name="n1")

    others = [used("large")] if is_used else []
    plan = checked(b.node("n1", cpu=8), pool, GPU, running, others, claim, pods=[using(b.pod("p", "c"))])
    assert s.nodes_of(plan) == {"p": "n1"}


@pytest.mark.parametrize("seed", range(40))
def test_a_pod_gets_devices_wherever_some_fit(seed: int) -> None:
    """By brute force: so many free devices as the request wants, and the node has room for all of them and the pod."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    amounts = {f"d{number}": draw.choice("01223456") for number in range(draw.randint(1, 5))}
    taken = [name for name in amounts if draw.random() < 0.3]
    count, own, size = draw.randint(1, 3), draw.randint(0, 2), draw.randint(3, 9)
    held = sum(int(amounts[each]) for each in taken)
    running = b.pod("running", cpu=min(size, held), node_name="n1")
    free = [int(amount) for name, amount in amounts.items() if name not in taken]
    fits = len(free) >= count and sum(sorted(free)[:count]) + own <= size - min(size, held)
    world = (b.node("n1", cpu=size), devices("n1", **amounts), GPU, running, [used(each) for each in taken])

    pod, claim = waiting(count, own)
    assert bool(checked(*world, claim, pods=[pod]).placements) == fits

    claims = [b.claim(f"c{number}", b.request("r")) for number in range(count)]
    apart = using(b.pod("p", *(each.id.name for each in claims), cpu=own))
    assert bool(checked(*world, claims, pods=[apart]).placements) == fits
