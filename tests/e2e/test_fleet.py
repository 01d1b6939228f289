"""The fleet looks like what real drivers publish, keeps the API's limits, and a real API server takes it as it is."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import aiohttp
import pytest

from e2e import objects
from e2e.controlplane import wire
from e2e.controlplane.plane import ControlPlane
from e2e.fleet import amd, dranet, fleets, nvidia, publish, shape
from e2e.fleet.pci import NUMA_NODE, PCIE_ROOT
from e2e.fleet.shape import Fleet, Manifest
from tests.support.shell_clock import VirtualClock

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
DEMO = fleets.demo_fleet()
LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")


def devices(fleet: Fleet, driver: str = "", **attributes: str) -> Iterator[Manifest]:
    for each in fleet.slices:
        domain = each["spec"]["driver"]
        for device in each["spec"]["devices"]:
            found = {name: next(iter(value.values())) for name, value in device["attributes"].items()}
            if (not driver or domain == driver) and attributes.items() <= found.items():
                yield device


def value(device: Manifest, attribute: str) -> Any:
    return next(iter(device["attributes"][attribute].values()))


@pytest.mark.parametrize(
    ("driver", "kind", "count"),
    [
        pytest.param("gpu.nvidia.com", "gpu", 32, id="whole H100"),
        pytest.param("gpu.nvidia.com", "mig", 32, id="MIG devices"),
        pytest.param("gpu.amd.com", "amdgpu", 8, id="whole MI300X"),
        pytest.param("gpu.amd.com", "amdgpu-partition", 64, id="partitions of MI300X"),
        pytest.param("hami-core-gpu.project-hami.io", "hami-gpu", 4, id="GPUs in shares"),
    ],
)
def test_the_demo_fleet_has_one_of_each(driver: str, kind: str, count: int) -> None:
    assert len(list(devices(DEMO, driver, type=kind))) == count


def test_a_driver_publishes_on_all_demo_nodes_of_a_type_or_on_none() -> None:
    """Else `dovetail status` warns of the others."""
    types = {each["metadata"]["name"]: each["metadata"]["labels"][INSTANCE_TYPE] for each in DEMO.nodes}
    having = {(each["spec"]["driver"], each["spec"]["nodeName"]) for each in DEMO.slices}
    by_type = {(driver, types[name]) for driver, name in having}
    assert {(driver, name) for driver, kind in by_type for name in types if types[name] == kind} == having


@pytest.mark.parametrize(
    ("driver", "attributes", "memory"),
    [
        pytest.param("gpu.nvidia.com", {"type": "gpu"}, "81559Mi", id="an 80 GB H100 publishes less than 80Gi"),
        pytest.param("gpu.nvidia.com", {"profile": "1g.5gb"}, "4864Mi", id="1g.5gb"),
        pytest.param("gpu.nvidia.com", {"profile": "2g.10gb"}, "9856Mi", id="2g.10gb"),
        pytest.param("gpu.nvidia.com", {"profile": "3g.20gb"}, "19968Mi", id="3g.20gb"),
        pytest.param("gpu.amd.com", {"type": "amdgpu"}, "196592Mi", id="MI300X"),
        pytest.param("gpu.amd.com", {"type": "amdgpu-partition"}, "24574Mi", id="an eighth of an MI300X"),
    ],
)
def test_memory_is_what_the_driver_publishes(driver: str, attributes: dict[str, str], memory: str) -> None:
    assert {device["capacity"]["memory"]["value"] for device in devices(DEMO, driver, **attributes)} == {memory}


def test_every_gpu_with_mig_is_cut_all_balanced() -> None:
    layouts: dict[str, list[str]] = {}
    for device in devices(DEMO, "gpu.nvidia.com", type="mig"):
        layouts.setdefault(value(device, "parentUUID"), []).append(value(device, "profile"))
    assert [sorted(profiles) for profiles in layouts.values()] == [["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]] * 8


def test_mig_devices_of_a_gpu_take_each_memory_slice_once() -> None:
    taken = Counter(
        (value(device, "parentUUID"), name)
        for device in devices(DEMO, "gpu.nvidia.com", type="mig")
        for name in device["capacity"]
        if name.startswith("memorySlice")
    )
    assert set(taken.values()) == {1}


def test_mig_devices_of_a_gpu_take_all_its_memory_slices() -> None:
    slices = Counter(
        value(device, "parentUUID")
        for device in devices(DEMO, "gpu.nvidia.com", type="mig")
        for name in device["capacity"]
        if name.startswith("memorySlice")
    )
    assert set(slices.values()) == {8}


def test_an_amd_partition_names_its_parent_as_no_whole_gpu_is_named() -> None:
    assert not any("deviceID" in device["attributes"] for device in devices(DEMO, type="amdgpu-partition"))


def test_eight_partitions_have_the_same_amd_parent() -> None:
    parents = Counter(value(device, "parentDeviceID") for device in devices(DEMO, type="amdgpu-partition"))
    assert list(parents.values()) == [8] * 8


def test_every_gpu_of_an_h100_node_has_a_network_card_behind_its_root() -> None:
    fleet = nvidia.gpu_node("n") + dranet.rdma_nics("n")
    cards = {value(device, PCIE_ROOT) for device in devices(fleet, "dra.net") if value(device, "dra.net/rdma")}
    assert {value(device, PCIE_ROOT) for device in devices(fleet, "gpu.nvidia.com")} == cards


def test_gpus_and_cards_sit_at_different_places_of_the_bus() -> None:
    fleet = nvidia.gpu_node("n") + dranet.rdma_nics("n")
    gpus = {value(device, "resource.kubernetes.io/pciBusID") for device in devices(fleet, "gpu.nvidia.com")}
    assert gpus.isdisjoint(value(device, "dra.net/pciAddress") for device in devices(fleet, "dra.net"))


@pytest.mark.parametrize(("per_root", "roots"), [(1, 8), (2, 4), (4, 2), (8, 1)])
def test_gpus_are_spread_over_roots_as_asked(per_root: int, roots: int) -> None:
    counts = Counter(value(device, PCIE_ROOT) for device in devices(nvidia.gpu_node("n", gpus_per_root=per_root)))
    assert sorted(counts.values()) == [per_root] * roots


def test_half_of_the_gpus_belong_to_each_numa_node() -> None:
    assert Counter(value(device, NUMA_NODE) for device in devices(nvidia.gpu_node("n"))) == {0: 4, 1: 4}


def test_more_roots_than_a_machine_has_are_refused() -> None:
    with pytest.raises(ValueError, match="16 devices, 1 behind each root: a machine has 8 roots at most"):
        nvidia.gpu_node("n", gpus=16, gpus_per_root=1)


def test_the_same_arguments_give_the_same_fleet() -> None:
    assert fleets.demo_fleet() == DEMO


def test_no_two_gpus_have_the_same_uuid() -> None:
    uuids = [value(device, "uuid") for device in devices(fleets.gpu_fleet(3), "gpu.nvidia.com")]
    assert len(set(uuids)) == len(uuids)


def test_fleets_with_the_same_class_have_it_once() -> None:
    assert len((amd.gpu_node("a") + amd.partition_node("b")).classes) == 1


@pytest.mark.parametrize(
    ("count", "extra", "sizes"),
    [
        pytest.param(128, {}, [128], id="a full slice"),
        pytest.param(129, {}, [128, 1], id="one more"),
        pytest.param(65, {"taints": [{"key": "k", "effect": "None"}]}, [64, 1], id="taints halve the limit"),
    ],
)
def test_a_pool_is_published_in_as_few_slices_as_the_api_allows(count: int, extra: Manifest, sizes: list[int]) -> None:
    pool = shape.slices("d", "n", [{**shape.device(f"d-{index}", {}), **extra} for index in range(count)])
    assert [len(each["spec"]["devices"]) for each in pool] == sizes
    assert {each["spec"]["pool"]["resourceSliceCount"] for each in pool} == {len(sizes)}


def test_every_device_keeps_the_limits_of_the_api() -> None:
    for device in devices(DEMO):
        texts = [value(device, name) for name in device["attributes"] if isinstance(value(device, name), str)]
        assert LABEL.match(device["name"]), device
        assert len(device["name"]) <= 63, device
        assert len(device["attributes"]) + len(device.get("capacity", {})) <= 32, device
        assert max(map(len, texts)) <= 64, device


@pytest.mark.controlplane
@pytest.mark.kubernetes(gates=("DRAConsumableCapacity", "DRAExtendedResource", "DRAPartitionableDevices"))
async def test_the_api_server_accepts_the_demo_fleet_unchanged(control_plane: ControlPlane) -> None:
    async with wire.session(control_plane.kubeconfig, 16) as session:
        await publish.publish(session, DEMO)
        try:
            changed = [
                f"{each['kind']} {each['metadata']['name']}: {part}"
                for each in (*DEMO.nodes, *DEMO.classes, *DEMO.slices)
                for part in ("spec", "status")
                if part in each
                and (await objects.request(session, "GET", objects.object_path(each)))[part] != each[part]
            ]
        finally:
            await publish.withdraw(session, DEMO)
    assert changed == []


@pytest.mark.controlplane
async def test_a_fleet_that_is_withdrawn_leaves_nothing(control_plane: ControlPlane) -> None:
    fleet = nvidia.mig_node("leaves-nothing")
    async with wire.session(control_plane.kubeconfig, 16) as session:
        await publish.publish(session, fleet)
        await publish.withdraw(session, fleet)
        names = [
            item["metadata"]["name"]
            for each in (fleet.nodes[0], fleet.classes[0], fleet.slices[0])
            for item in (await objects.request(session, "GET", objects.collection_path(each)))["items"]
        ]
    assert not {each["metadata"]["name"] for each in (*fleet.nodes, *fleet.classes, *fleet.slices)} & set(names)


async def test_a_cluster_has_settled_when_few_writes_come(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, revisions = VirtualClock(), iter((100, 600, 1100, 1103, 9999))

    async def request(*_: object, **__: object) -> Manifest:
        return {"metadata": {"resourceVersion": str(next(revisions))}, "items": []}

    monkeypatch.setattr(objects, "request", request)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    await publish.settle(cast(aiohttp.ClientSession, None))
    assert next(revisions) == 9999
