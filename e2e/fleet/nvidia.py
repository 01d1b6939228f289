"""What NVIDIA's driver `gpu.nvidia.com` publishes: whole GPUs, and MIG devices that were cut before it started."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from e2e.fleet.pci import NUMA_NODE, PCI_BUS_ID, PCIE_ROOT, Slot, gpu_slots
from e2e.fleet.shape import (
    Attribute,
    Fleet,
    Machine,
    Manifest,
    Version,
    device,
    device_class,
    node,
    slices,
    stable_uuid,
)

DRIVER = "gpu.nvidia.com"
DRIVER_VERSION = "580.105.8"  # the third part has no leading zero: versions are semantic ones
OLDER_DRIVER_VERSION = "570.133.20"

# As the driver's chart makes them. A pod that asks for the extended resource nvidia.com/gpu gets a whole GPU.
CLASSES = (
    device_class(
        "gpu.nvidia.com",
        f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'",
        extended_resource="nvidia.com/gpu",
    ),
    device_class("mig.nvidia.com", f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'mig'"),
)


@dataclass(frozen=True, slots=True)
class Model:
    """One kind of GPU; `memory` is what NVML reports and the driver publishes, not what the product is called."""

    product: str
    architecture: str
    compute_capability: str
    memory: str
    machine: Machine


H100 = Model(
    "NVIDIA H100 80GB HBM3",
    "Hopper",
    "9.0.0",
    "81559Mi",
    Machine(instance_type="hgx-h100-8", cpu=192, memory_gib=2048, disk_gib=7168),
)
_NVLINK_H100 = replace(H100, machine=replace(H100.machine, instance_type="nvl-h100-8"))
"""It has no network cards: on a type of machines each driver publishes devices of all or of none."""
A100_40GB = Model(
    "NVIDIA A100-SXM4-40GB",
    "Ampere",
    "8.0.0",
    "40Gi",
    Machine(instance_type="hgx-a100-8", cpu=96, memory_gib=1152, disk_gib=3584),
)
L40S = Model(
    "NVIDIA L40S",
    "Ada Lovelace",
    "8.9.0",
    "46068Mi",
    Machine(instance_type="l40s-4", cpu=128, memory_gib=512, disk_gib=1792),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """A GPU instance profile of the A100 40 GB: `identity` is NVML's, engines and memory what it reports."""

    name: str
    identity: int
    memory_slices: int
    memory: str
    multiprocessors: int
    copy_engines: int
    decoders: int


ONE = Profile("1g.5gb", 19, 1, "4864Mi", 14, 1, 0)
TWO = Profile("2g.10gb", 14, 2, "9856Mi", 28, 2, 1)
THREE = Profile("3g.20gb", 9, 4, "19968Mi", 42, 3, 2)
# The layout that mig-parted calls all-balanced, each with the memory slice that it begins at.
BALANCED = ((ONE, 0), (ONE, 1), (TWO, 2), (THREE, 4))


def gpu_node(
    name: str, *, model: Model = H100, gpus: int = 8, gpus_per_root: int = 2, driver_version: str = DRIVER_VERSION
) -> Fleet:
    """Make a node with whole GPUs."""
    devices = [
        device(
            f"gpu-{minor}",
            {"type": "gpu", "uuid": gpu_uuid(name, minor), **attributes(model, slot, driver_version)},
            {"memory": model.memory},
        )
        for minor, slot in enumerate(gpu_slots(gpus, gpus_per_root))
    ]
    return Fleet((node(name, model.machine, labels=_labels(model, gpus)),), CLASSES, slices(DRIVER, name, devices))


def nvlink_node(name: str, clique: str, *, gpus: int = 8) -> Fleet:
    """Make a node with whole GPUs of one NVLink domain, kept for jobs that need one: by its label and a taint."""
    made = gpu_node(name, model=_NVLINK_H100, gpus=gpus)
    (bare,) = made.nodes
    labels = {**bare["metadata"]["labels"], "nvidia.com/gpu.clique": clique}
    taint = {"key": "nvidia.com/nvlink-domain", "effect": "NoSchedule"}
    kept = {**bare, "metadata": {**bare["metadata"], "labels": labels}, "spec": {"taints": [taint]}}
    return Fleet((kept,), made.classes, made.slices)


def mig_node(name: str, *, gpus: int = 8, gpus_per_root: int = 2, driver_version: str = DRIVER_VERSION) -> Fleet:
    """Make a node whose A100 40 GB are all cut into 2 × 1g.5gb, 1 × 2g.10gb and 1 × 3g.20gb; none is whole."""
    model = A100_40GB
    devices = [
        each
        for minor, slot in enumerate(gpu_slots(gpus, gpus_per_root))
        for each in _mig_devices(name, minor, attributes(model, slot, driver_version))
    ]
    labels = {**_labels(model, gpus), "nvidia.com/mig.config": "all-balanced", "nvidia.com/mig.strategy": "mixed"}
    return Fleet((node(name, model.machine, labels=labels),), CLASSES, slices(DRIVER, name, devices))


def gpu_uuid(node_name: str, minor: int) -> str:
    """Name a GPU as NVML does."""
    return f"GPU-{stable_uuid(node_name, minor)}"


def attributes(model: Model, slot: Slot, driver_version: str = DRIVER_VERSION) -> dict[str, Attribute]:
    """Return what whole GPUs and their partitions have in common."""
    return {
        "productName": model.product,
        "brand": "Nvidia",
        "architecture": model.architecture,
        "addressingMode": "HMM",
        "cudaComputeCapability": Version(model.compute_capability),
        "cudaDriverVersion": Version("13.0.0" if driver_version == DRIVER_VERSION else "12.8.0"),
        "driverVersion": Version(driver_version),
        PCI_BUS_ID: slot.bus_id,
        PCIE_ROOT: slot.root,
        NUMA_NODE: slot.numa_node,
    }


def _mig_devices(node_name: str, minor: int, common: dict[str, Attribute]) -> Iterator[Manifest]:
    for profile, start in BALANCED:
        name = f"gpu-{minor}-mig-{profile.name.replace('.', '')}-{profile.identity}-{start}"
        capacity = {
            "memory": profile.memory,
            "multiprocessors": str(profile.multiprocessors),
            "copyEngines": str(profile.copy_engines),
            "decoders": str(profile.decoders),
            "encoders": "0",
            "jpegEngines": "0",
            "ofaEngines": "0",
            **{f"memorySlice{index}": "1" for index in range(start, start + profile.memory_slices)},
        }
        own: dict[str, Attribute] = {
            "type": "mig",
            "profile": profile.name,
            "parentUUID": gpu_uuid(node_name, minor),
            "uuid": f"MIG-{stable_uuid(node_name, name)}",
        }
        yield device(name, {**own, **common}, capacity)


def _labels(model: Model, gpus: int) -> dict[str, str]:
    """Return the labels of GPU feature discovery that people select nodes by."""
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": model.product.replace(" ", "-"),
        "nvidia.com/gpu.count": str(gpus),
    }
