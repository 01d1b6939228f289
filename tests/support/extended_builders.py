"""Pods that ask for extended resources container by container, and the classes that stand for them."""

from collections.abc import Mapping

from msgspec.structs import replace

from solver.domain import ContainerRequests, DeviceClass, Pod
from tests.support import builders as b

RESOURCE = "example.com/gpu"


def container(name: str = "main", **amounts: int) -> ContainerRequests:
    """A container; `gpu=2` asks for two of `example.com/gpu`, every other word is a native resource."""
    return ContainerRequests(name=name, requests=_requests(amounts))


def init(name: str = "init", **amounts: int) -> ContainerRequests:
    return ContainerRequests(name=name, requests=_requests(amounts), is_init=True)


def sidecar(name: str = "sidecar", **amounts: int) -> ContainerRequests:
    return ContainerRequests(name=name, requests=_requests(amounts), is_init=True, is_sidecar=True)


def _requests(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    named = {RESOURCE if word == "gpu" else word.replace("__", "/"): amount for word, amount in amounts.items()}
    return tuple(sorted(named.items()))


def pod(name: str, *containers: ContainerRequests, priority: int = 0, resource: str = RESOURCE) -> Pod:
    """A pod of containers (init containers first); what it takes of a node is summed up as the API says."""
    containers = tuple(
        replace(each, requests=tuple(sorted((_renamed(one, resource), amount) for one, amount in each.requests)))
        for each in containers
    )
    return replace(b.pod(name, priority=priority), containers=containers, requests=_total(containers))


def _renamed(one: str, resource: str) -> str:
    return resource if one == RESOURCE else one


def _total(containers: tuple[ContainerRequests, ...]) -> tuple[tuple[str, int], ...]:
    """The larger of what runs together and of each init container beside the sidecars before it."""
    names = {name for each in containers for name, _ in each.requests}
    total = {}
    for name in names:
        amounts = [dict(each.requests).get(name, 0) for each in containers]
        passes = [each.is_init and not each.is_sidecar for each in containers]
        lasting = [0 if is_passing else amount for amount, is_passing in zip(amounts, passes, strict=True)]
        peaks = [sum(lasting[:index]) + amounts[index] for index, is_passing in enumerate(passes) if is_passing]
        total[name] = max(sum(lasting), *peaks, 0)
    return tuple(sorted(total.items()))


def gpu_class(name: str = b.GPU_CLASS, *, resource: str = RESOURCE, created: str = "") -> DeviceClass:
    """The class of all devices of `gpu_slice`, which is also an extended resource."""
    return replace(
        b.device_class(name, driver=b.GPU_DRIVER, extended_resource_name=resource), creation_timestamp=created
    )
