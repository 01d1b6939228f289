"""Where on a machine's PCI bus its devices sit: what makes a GPU and a network card neighbours."""

from dataclasses import dataclass

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"

ROOT_BUSES = (0x15, 0x37, 0x48, 0x59, 0x97, 0xB7, 0xC7, 0xD7)
NIC_OFFSET = 3  # behind a root come the bridges of its switch, then network cards, then GPUs
GPU_OFFSET = 6


@dataclass(frozen=True, slots=True)
class Slot:
    """One place on the bus."""

    root_bus: int
    bus: int
    numa_node: int

    @property
    def root(self) -> str:
        """The value of the standard attribute `pcieRoot`."""
        return f"pci0000:{self.root_bus:02x}"

    @property
    def bus_id(self) -> str:
        """The value of the standard attribute `pciBusID`."""
        return f"0000:{self.bus:02x}:00.0"


def gpu_slots(count: int, per_root: int) -> tuple[Slot, ...]:
    """Lay out `count` GPUs, `per_root` behind each root; the first half of the roots belongs to NUMA node 0."""
    return _slots(count, per_root, GPU_OFFSET)


def nic_slots(count: int, per_root: int) -> tuple[Slot, ...]:
    """Lay out network cards behind the same roots."""
    return _slots(count, per_root, NIC_OFFSET)


def _slots(count: int, per_root: int, offset: int) -> tuple[Slot, ...]:
    roots = -(-count // per_root)
    if roots > len(ROOT_BUSES):
        raise ValueError(f"{count} devices, {per_root} behind each root: a machine has {len(ROOT_BUSES)} roots at most")
    buses = ROOT_BUSES[:: len(ROOT_BUSES) // roots][:roots]
    return tuple(
        Slot(root_bus := buses[index // per_root], root_bus + offset + index % per_root, index // per_root * 2 // roots)
        for index in range(count)
    )
