"""The NVIDIA cards of this machine as devices of a ResourceSlice, by what NVML and sysfs say of them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.fleet.pci import NUMA_NODE, PCI_BUS_ID, PCIE_ROOT
from e2e.fleet.shape import Attribute, Manifest, Version, device

NEEDED: Final = "needed are a card, NVIDIA's driver with libnvidia-ml.so.1, and `make gpu`, which installs nvidia-ml-py"
COMMON_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device nodes beneath /dev that belong to no card; a container with a card gets those that exist."""
# As NVIDIA's driver names what NVML numbers (go-nvlib, pkg/nvlib/device).
ARCHITECTURES: Final = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
    0xFFFFFFFF: "Unknown",
}
BRANDS: Final = {
    0: "Unknown",
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "Grid",
    5: "GeForce",
    6: "Titan",
    7: "NvidiaVApps",
    8: "NvidiaVPC",
    9: "NvidiaVCS",
    10: "NvidiaVWS",
    11: "NvidiaCloudGaming",
    12: "QuadroRTX",
    13: "NvidiaRTX",
    14: "Nvidia",
    15: "GeForceRTX",
    16: "TitanRTX",
}
ADDRESSING_MODES: Final = {0: "None", 1: "HMM", 2: "ATS"}
_NOT_SUPPORTED, _FUNCTION_NOT_FOUND = 3, 13
"""Codes of NVMLError: the card has no such value, or the driver is older than the function."""


class NoCardError(Exception):
    """There is no card to publish; the text says why, and what is needed."""


class _LeftOutError(Exception):
    """A card cannot be published; the text says why."""


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards that can be given to containers."""

    devices: tuple[Manifest, ...]
    """As in a ResourceSlice's spec, with the names and types of NVIDIA's driver `gpu.nvidia.com`."""
    edits: Mapping[str, Manifest]
    """What a container gets with a device, by its name: containerEdits of CDI."""
    left_out: tuple[str, ...] = ()
    """Why other cards are not among them."""


@dataclass(frozen=True, slots=True)
class Nvml:
    """The module pynvml, or what stands for it, and the folder beneath which `dev` and `sys` are."""

    library: Any
    root: Path = Path("/")

    def value(self, name: str, *of: Any) -> Any:
        """Ask one function; None where the card, or the driver, has no such value. Raises NVMLError."""
        try:
            return getattr(self.library, name)(*of)
        except self.library.NVMLError as error:
            if error.value in (_NOT_SUPPORTED, _FUNCTION_NOT_FOUND):
                return None
            raise


def cards() -> Cards:
    """Ask this machine's NVML. Raises NoCardError."""
    try:
        import pynvml  # noqa: PLC0415 - of the dependency group gpu, which others do not have
    except ImportError:
        raise NoCardError(f"no card is known: nvidia-ml-py is not installed; {NEEDED}") from None
    return read(Nvml(pynvml))


def read(nvml: Nvml) -> Cards:
    """Read all cards. Raises NoCardError where NVML does not answer, or no card can be published."""
    error: type[Exception] = nvml.library.NVMLError
    try:
        nvml.library.nvmlInit()
    except error as why:
        raise NoCardError(f"NVML does not start ({why}); {NEEDED}") from None
    try:
        return _read(nvml, error)
    except error as why:
        raise NoCardError(f"NVML does not list cards ({why}); {NEEDED}") from None
    finally:
        nvml.library.nvmlShutdown()


def _read(nvml: Nvml, error: type[Exception]) -> Cards:
    common = _versions(nvml)
    devices: list[Manifest] = []
    edits: dict[str, Manifest] = {}
    left_out: list[str] = []
    for index in range(nvml.library.nvmlDeviceGetCount()):
        try:
            card = nvml.library.nvmlDeviceGetHandleByIndex(index)
            minor = _minor(nvml, card)
            found = _device(nvml, card, minor, common)
        except (error, _LeftOutError) as why:
            left_out.append(f"card {index} is left out: {why}")
            continue
        devices.append(found)
        edits[found["name"]] = {"deviceNodes": [{"path": each} for each in _device_nodes(nvml.root, minor)]}
    if not devices:
        raise NoCardError("; ".join([*left_out, f"NVML has no card to publish, {NEEDED}"]))
    return Cards(tuple(devices), edits, tuple(left_out))


def _minor(nvml: Nvml, card: Any) -> int:
    """Return the number of the card's device node. Raises NVMLError, or _LeftOutError where no container can use it."""
    current, _ = nvml.value("nvmlDeviceGetMigMode", card) or (0, 0)
    if current:
        raise _LeftOutError("it is in MIG mode, where NVIDIA's driver publishes MIG devices, and this nothing")
    minor = nvml.value("nvmlDeviceGetMinorNumber", card)
    if minor is None:
        raise _LeftOutError("it has no minor number, and so no device node")
    if not (nvml.root / "dev" / f"nvidia{minor}").exists():
        raise _LeftOutError(f"/dev/nvidia{minor} does not exist: `nvidia-modprobe -c {minor}` makes it")
    return int(minor)


def _device(nvml: Nvml, card: Any, minor: int, common: Mapping[str, Attribute | None]) -> Manifest:
    capability = nvml.value("nvmlDeviceGetCudaComputeCapability", card)
    attributes: dict[str, Attribute | None] = {
        "type": "gpu",
        "uuid": nvml.value("nvmlDeviceGetUUID", card),
        "productName": nvml.value("nvmlDeviceGetName", card),
        "brand": BRANDS.get(nvml.value("nvmlDeviceGetBrand", card)),
        "architecture": ARCHITECTURES.get(nvml.value("nvmlDeviceGetArchitecture", card)),
        "addressingMode": ADDRESSING_MODES.get(nvml.value("nvmlDeviceGetAddressingMode", card)),
        "cudaComputeCapability": _version(*capability) if capability else None,
        **common,
        **dict(_place(nvml, card)),
    }
    memory = nvml.value("nvmlDeviceGetMemoryInfo", card)  # none where the card uses the machine's
    known = {name: value for name, value in attributes.items() if value is not None}
    return device(f"gpu-{minor}", known, {"memory": quantity(memory.total)} if memory else None)


def _versions(nvml: Nvml) -> dict[str, Attribute | None]:
    driver, cuda = nvml.value("nvmlSystemGetDriverVersion"), nvml.value("nvmlSystemGetCudaDriverVersion")
    return {
        "driverVersion": _version(*map(int, re.findall(r"\d+", driver))) if driver else None,
        "cudaDriverVersion": _version(cuda // 1000, cuda % 1000 // 10) if cuda else None,
    }


def _version(*numbers: int) -> Version:
    """Return a semantic version: three numbers without leading zeros."""
    return Version(".".join(map(str, (*numbers, 0, 0)[:3])))


def _place(nvml: Nvml, card: Any) -> Iterator[tuple[str, Attribute]]:
    """Yield where the card sits."""
    info = nvml.value("nvmlDeviceGetPciInfo", card)
    if info is None:
        return
    domain, bus, slot = info.busId.lower().split(":")
    bus_id = f"{int(domain, 16):04x}:{bus}:{slot}"  # NVML has eight digits, the kernel four
    yield PCI_BUS_ID, bus_id
    folder = nvml.root / "sys" / "bus" / "pci" / "devices" / bus_id
    # /sys/devices/pci0000:15/0000:15:01.0/…/0000:1b:00.0, as in k8s.io/dynamic-resource-allocation/deviceattribute
    below = folder.resolve().relative_to((nvml.root / "sys").resolve()).parts
    if below[0] == "devices" and below[1].startswith("pci"):
        yield PCIE_ROOT, below[1]
    numa_node = folder / "numa_node"
    if numa_node.exists() and (number := int(numa_node.read_text())) >= 0:  # -1 where the firmware does not say
        yield NUMA_NODE, number


def _device_nodes(root: Path, minor: int) -> list[str]:
    return [f"/dev/{name}" for name in (f"nvidia{minor}", *COMMON_NODES) if (root / "dev" / name).exists()]


def quantity(count: int) -> str:
    """Return bytes as the API server writes them, in the largest unit of which there is a whole number."""
    units = ("", "Ki", "Mi", "Gi", "Ti")
    power = 0
    while count and count % 1024 == 0 and power < len(units) - 1:
        count, power = count // 1024, power + 1
    return f"{count}{units[power]}"
