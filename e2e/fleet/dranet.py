"""What the network driver DRANET (`dra.net`) publishes for RDMA cards. It ships no class: its users make one."""

from e2e.fleet.pci import PCIE_ROOT, Slot, nic_slots
from e2e.fleet.shape import Attribute, Fleet, Manifest, device, slices

DRIVER = "dra.net"


def rdma_nics(node_name: str, *, count: int = 8, per_root: int = 2) -> Fleet:
    """Make the slices of a node that exists: RDMA cards, `per_root` behind each root, and the plain one of the host."""
    cards = [_rdma_card(index, slot) for index, slot in enumerate(nic_slots(count, per_root))]
    return Fleet(slices=slices(DRIVER, node_name, [*cards, _host_card()]))


def _rdma_card(index: int, slot: Slot) -> Manifest:
    return _card(
        slot.bus_id,
        {
            "dra.net/ifName": f"enp{slot.bus}s0np0",
            "dra.net/mac": f"94:6d:ae:00:00:{index:02x}",
            "dra.net/mtu": 9000,
            "dra.net/numaNode": slot.numa_node,
            "dra.net/pciDevice": "MT2910 Family [ConnectX-7]",
            "dra.net/pciVendor": "Mellanox Technologies",
            "dra.net/rdma": True,
            "dra.net/rdmaDevice": f"mlx5_{index}",
            PCIE_ROOT: slot.root,
        },
    )


def _host_card() -> Manifest:
    return _card(
        "0000:02:00.0",
        {
            "dra.net/ifName": "eno1",
            "dra.net/mac": "3c:ec:ef:00:00:01",
            "dra.net/mtu": 1500,
            "dra.net/numaNode": 0,
            "dra.net/pciDevice": "Ethernet Controller X710 for 10GBASE-T",
            "dra.net/pciVendor": "Intel Corporation",
            "dra.net/rdma": False,
            PCIE_ROOT: "pci0000:00",
        },
    )


def _card(bus_id: str, attributes: dict[str, Attribute]) -> Manifest:
    common: dict[str, Attribute] = {
        "dra.net/encapsulation": "ether",
        "dra.net/pciAddress": bus_id,
        "dra.net/sriov": False,
        "dra.net/state": "up",
        "dra.net/type": "device",
        "dra.net/virtual": False,
    }
    name = "pci-" + bus_id.replace(":", "-").replace(".", "-")
    return device(name, {**common, **attributes})
