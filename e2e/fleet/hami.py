"""What HAMi's driver publishes: GPUs that several claims share, by memory and by cores (consumable capacity)."""

from e2e.fleet import nvidia
from e2e.fleet.pci import PCI_BUS_ID, PCIE_ROOT, gpu_slots
from e2e.fleet.shape import Attribute, Fleet, Manifest, device, device_class, node, slices

DRIVER = "hami-core-gpu.project-hami.io"
# Its chart also sets extendedResourceName nvidia.com/gpu, which in this fleet belongs to NVIDIA's class.
CLASSES = (device_class(DRIVER, f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'hami-gpu'"),)


def gpu_node(name: str, *, model: nvidia.Model = nvidia.L40S, gpus: int = 4) -> Fleet:
    """Make a node with GPUs that are given out in shares of memory (steps of 1Mi) and cores (per cent)."""
    devices = [_shared_gpu(name, minor, model, gpus) for minor in range(gpus)]
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": model.product.replace(" ", "-")}
    return Fleet((node(name, model.machine, labels=labels),), CLASSES, slices(DRIVER, name, devices))


def _shared_gpu(node_name: str, minor: int, model: nvidia.Model, gpus: int) -> Manifest:
    slot = gpu_slots(gpus, 1)[minor]
    common = nvidia.attributes(model, slot)
    names = ("productName", "brand", "architecture", "cudaComputeCapability", "driverVersion", "cudaDriverVersion")
    attributes: dict[str, Attribute] = {
        "type": "hami-gpu",
        "minor": minor,
        "uuid": nvidia.gpu_uuid(node_name, minor),
        "pcieBusID": common[PCI_BUS_ID],
        PCIE_ROOT: common[PCIE_ROOT],
        **{name: common[name] for name in names},
    }
    return {
        **device(f"hami-gpu-{minor}", attributes),
        "allowMultipleAllocations": True,
        "capacity": {
            "memory": _shared(model.memory, least="1Mi", step="1Mi"),
            "cores": _shared("100", least="0", step="1"),
        },
    }


def _shared(value: str, *, least: str, step: str) -> Manifest:
    """Make a capacity of which a claim that does not say how much gets all."""
    policy = {"default": value, "validRange": {"min": least, "max": value, "step": step}}
    return {"value": value, "requestPolicy": policy}
