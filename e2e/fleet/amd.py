"""What AMD's driver `gpu.amd.com` publishes: whole GPUs, and the partitions of GPUs that were cut before it started."""

from e2e.fleet.pci import PCIE_ROOT, Slot, gpu_slots
from e2e.fleet.shape import Attribute, Fleet, Machine, Version, device, device_class, node, slices, stable_uuid

DRIVER = "gpu.amd.com"
CLASSES = (device_class("gpu.amd.com", f"device.driver == '{DRIVER}'"),)
MACHINE = Machine(instance_type="mi300x-8", cpu=192, memory_gib=2304, disk_gib=7168)
PARTITIONS = 8  # mode CPX: each of the eight dies by itself


def gpu_node(name: str, *, gpus: int = 8) -> Fleet:
    """Make a node with whole MI300X."""
    devices = [
        device(
            f"gpu-{card}-{128 + card}",
            {
                "type": "amdgpu",
                "deviceID": _device_id(name, card),
                "pciAddr": slot.bus_id,
                **_attributes(card, slot, "spx_nps1"),
            },
            {"memory": "196592Mi", "computeUnits": "304", "simdUnits": "1216"},
        )
        for card, slot in enumerate(gpu_slots(gpus, 1))
    ]
    return Fleet((_node(name),), CLASSES, slices(DRIVER, name, devices))


def partition_node(name: str, *, gpus: int = 8) -> Fleet:
    """Make a node whose MI300X are all cut into eight partitions (cpx_nps1); a partition only names its parent."""
    devices = [
        device(
            f"gpu-{card}-{128 + card}",
            {
                "type": "amdgpu-partition",
                "parentDeviceID": _device_id(name, gpu),
                "parentPciAddr": slot.bus_id,
                **_attributes(card, slot, "cpx_nps1"),
            },
            {"memory": "24574Mi", "computeUnits": "38", "simdUnits": "152"},
        )
        for gpu, slot in enumerate(gpu_slots(gpus, 1))
        for card in range(gpu * PARTITIONS, (gpu + 1) * PARTITIONS)
    ]
    return Fleet((_node(name),), CLASSES, slices(DRIVER, name, devices))


def _node(name: str) -> dict[str, object]:
    return node(name, MACHINE, zone="zone-b", labels={"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"})


def _attributes(card: int, slot: Slot, partition_profile: str) -> dict[str, Attribute]:
    return {
        "productName": "AMD_Instinct_MI300X_OAM",
        "family": "AI",
        "cardIndex": card,
        "renderIndex": 128 + card,
        "driverVersion": Version("6.14.14"),
        "driverSrcVersion": "CFBB20DF2696094F98A209B",
        "partitionProfile": partition_profile,
        "numaNode": slot.numa_node,
        PCIE_ROOT: slot.root,
    }


def _device_id(node_name: str, gpu: int) -> str:
    """Make the serial number of a GPU, a decimal text that differs on every card."""
    return str(int(stable_uuid(node_name, gpu)[:8], 16) + 10_000_000_000)
