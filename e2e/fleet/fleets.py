"""Whole clusters: the one that is shown, and uniform ones of any size that are measured."""

from functools import reduce
from operator import add

from e2e.fleet import amd, dranet, hami, nvidia
from e2e.fleet.shape import Fleet, Machine, node

PLAIN = Machine(instance_type="cpu-16", cpu=16, memory_gib=64, disk_gib=200)


def demo_fleet() -> Fleet:
    """
    Make one of each.

    Two H100 nodes with RDMA cards (with different drivers), two of one NVLink domain, MIG, MI300X, shares, no devices
    at all: 32 H100 (81559Mi), 16 RDMA cards, 32 MIG devices, 8 whole MI300X, 64 partitions, 4 L40S in shares.
    """
    return together(
        nvidia.gpu_node("h100-1", driver_version=nvidia.OLDER_DRIVER_VERSION),
        dranet.rdma_nics("h100-1"),
        nvidia.gpu_node("h100-2"),
        dranet.rdma_nics("h100-2"),
        nvidia.nvlink_node("h100-nvlink-1", "5b1a.0"),
        nvidia.nvlink_node("h100-nvlink-2", "5b1a.0"),
        nvidia.mig_node("a100-mig-1"),
        amd.gpu_node("mi300x-1"),
        amd.partition_node("mi300x-cpx-1"),
        hami.gpu_node("l40s-shared-1"),
        Fleet(nodes=(node("cpu-1", PLAIN),)),
    )


def gpu_fleet(nodes: int, *, gpus: int = 8, gpus_per_root: int = 2) -> Fleet:
    """Make `nodes` equal nodes with `gpus` whole H100 each."""
    return together(
        *(nvidia.gpu_node(f"gpu-{index:04}", gpus=gpus, gpus_per_root=gpus_per_root) for index in range(nodes))
    )


def shared_gpu_fleet(nodes: int, *, gpus: int = 4) -> Fleet:
    """Make `nodes` equal nodes with `gpus` shareable L40S each."""
    return together(*(hami.gpu_node(f"shared-{index:04}", gpus=gpus) for index in range(nodes)))


def together(*fleets: Fleet) -> Fleet:
    """Put fleets together into one cluster."""
    return reduce(add, fleets, Fleet())
