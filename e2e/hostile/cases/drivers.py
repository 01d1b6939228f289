"""What a driver does that is broken or hostile, and what rights on namespaces and taint rules allow."""

from typing import Any

from e2e.controlplane import versions
from e2e.hostile.cases.case import Hands, Manifest, case, claim, pod, request
from e2e.hostile.objects.draw import LONG_DIGITS
from e2e.hostile.objects.kinds import DRIVER, GPU_DRIVER, NAMESPACE, OWN_NODES

_OWN_CLASS = "mallory-class"
_TAINT_RULES = versions.taint_rules()


def published(name: str, devices: list[Manifest], **spec: Any) -> Manifest:
    """Make a slice of Mallory's own driver and node."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"mallory-{name}"},
        "spec": {"driver": DRIVER, "nodeName": OWN_NODES[0], "pool": pool, "devices": devices, **spec},
    }


def _class(*selectors: str) -> Manifest:
    chosen = [{"cel": {"expression": each}} for each in (f'device.driver == "{DRIVER}"', *selectors)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": _OWN_CLASS},
        "spec": {"selectors": chosen},
    }


@case("generations", "a driver that publishes 20 pools anew ten times a second", rights="driver")
async def generations(hands: Hands) -> None:
    """Raise generations, with 64 devices of 16 attributes each."""
    attributes = {f"a{index}": {"string": "x" * 60} for index in range(16)}
    devices = [{"name": f"d{index}", "attributes": attributes} for index in range(64)]
    slices = [published(f"pool-{index}", devices) for index in range(20)]
    await hands.make(_class(), *slices)

    async def step(number: int) -> None:
        pool = {"name": f"pool-{number % 20}", "generation": 2 + number, "resourceSliceCount": 1}
        await hands.patch(slices[number % 20], {"spec": {"pool": pool}})

    await hands.repeat(10, step)


@case("slices", "a driver that publishes 100 slices of 128 devices", rights="driver")
async def slices(hands: Hands) -> None:
    """Publish them for a node of its own, and ask for more than there are."""
    attributes = {f"a{index}": {"int": 2**62 + index} for index in range(8)}
    devices = [{"name": f"d{index}", "attributes": attributes} for index in range(128)]
    await hands.make(_class())
    await hands.many(100, lambda index: published(f"many-{index}", devices))
    wanted = request("r0", device_class=_OWN_CLASS, count=33)
    await hands.many(100, lambda index: claim(f"s{index}", wanted))
    await hands.many(100, lambda index: pod(f"s{index}", claims=(f"s{index}",)))


@case("amounts", "a driver whose devices are worth more memory than numbers have", rights="driver")
async def amounts(hands: Hands) -> None:
    """Publish them for all nodes, under the name of the GPUs' driver, so that good pods could get them."""
    mapping = {"memory": {"capacityKey": "memory", "allocationMultiplier": "1e9"}}
    device = {
        "name": "d0",
        "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "none"}},
        "capacity": {"memory": {"value": "9223372036854775807"}},
        "nodeAllocatableResourceMappings": mapping,
    }
    made = published("amounts", [device], driver=GPU_DRIVER, allNodes=True)
    del made["spec"]["nodeName"]
    await hands.make(made)


@case("taint-rules", "50 taint rules that come and go, twenty changes a second", rights="driver")
async def taint_rules(hands: Hands) -> None:
    """Taint devices that are not there."""

    def rule(index: int) -> Manifest:
        taint = {"key": "example.com/bad", "effect": "NoSchedule"}
        selector = {"driver": GPU_DRIVER, "pool": f"none-{index}"}
        spec = {"deviceSelector": selector, "taint": taint}
        metadata = {"name": f"mallory-{index}"}
        return {"apiVersion": _TAINT_RULES, "kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}

    async def step(number: int) -> None:
        await hands.make(rule(number))
        await hands.remove(rule(number - 50))

    await hands.repeat(10, step)


@case("vanishing-devices", "devices that vanish while claims hold them, and come again", rights="driver")
async def vanishing_devices(hands: Hands) -> None:
    """Publish, let pods take them, take the slice away, and so on."""
    devices = [{"name": f"d{index}"} for index in range(32)]
    made = published("vanishing", devices)
    wanted = request("r0", device_class=_OWN_CLASS)
    await hands.make(_class(), made)
    await hands.many(40, lambda index: claim(f"d{index}", wanted))
    await hands.many(40, lambda index: pod(f"d{index}", claims=(f"d{index}",)))

    async def step(number: int) -> None:
        await (hands.remove(made) if number % 2 else hands.make(made))

    await hands.repeat(2, step)


@case("allocations", "claims whose allocations a client writes and takes back by hand", rights="driver")
async def allocations(hands: Hands) -> None:
    """Allocate devices that are not there, with many consumers, to claims that pods wait with."""
    await hands.make(*(pod(f"a{index}", claims=(f"a{index}",)) for index in range(50)))
    await _write_allocations(hands)


@case("other-allocations", "the same of claims that no pod names: what the API server alone costs", rights="driver")
async def other_allocations(hands: Hands) -> None:
    """Allocate the same."""
    await _write_allocations(hands)


async def _write_allocations(hands: Hands) -> None:
    """Write twenty times a second: with more of it the API server alone has all of a processor."""
    claims = [claim(f"a{index}") for index in range(50)]
    await hands.make(*claims)
    result = {"request": "r0", "driver": DRIVER, "pool": "none", "device": "none"}
    consumers = [{"resource": "pods", "name": f"x{index}", "uid": f"x{index}"} for index in range(200)]
    full: Manifest = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}

    async def step(number: int) -> None:
        each = claims[number % 50]
        await hands.patch(each, {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}})
        empty: Manifest = {"allocation": None, "reservedFor": None}
        await hands.patch(each, {"status": empty if number // 50 % 2 else full}, "status")

    await hands.repeat(10, step)


@case("namespace-labels", "a namespace whose labels change 50 times a second", rights="driver")
async def namespace_labels(hands: Hands) -> None:
    """Change them beside pods whose affinity selects namespaces."""
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"edited": "0"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await hands.many(100, lambda index: pod(f"n{index}", affinity=affinity))

    async def step(number: int) -> None:
        await hands.patch(own, {"metadata": {"labels": {"edited": str(number % 7)}}})

    await hands.repeat(50, step)


@case("class-selectors", "a device class whose selector fails, loops, and changes", rights="driver")
async def class_selectors(hands: Hands) -> None:
    """Let pods wait for it."""
    made = _class("[1][9] == 1")
    await hands.make(made)
    await hands.many(100, lambda index: claim(f"c{index}", request("r0", device_class=_OWN_CLASS)))
    await hands.many(100, lambda index: pod(f"c{index}", claims=(f"c{index}",)))

    async def step(number: int) -> None:
        expression = (f"[{number}][9] == 1", f'isSemver("1.2.{"9" * LONG_DIGITS}{number}")')[number % 2]
        await hands.patch(made, {"spec": {"selectors": [{"cel": {"expression": expression}}]}})

    await hands.repeat(5, step)
