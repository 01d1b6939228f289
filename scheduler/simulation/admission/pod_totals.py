"""Requests and limits of pods in manifests, summed up as the API server does."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from scheduler.kube.decode.pod_requests import Amounts, ContainerAmounts, PodAmounts, amounts, total
from scheduler.kube.errors import DecodeError
from scheduler.simulation.manifests.fields import Body, entries, mapping, spec, text

Which = Literal["requests", "limits"]


class ContainerPart(NamedTuple):
    """A container of a pod and its path."""

    at: str
    body: Body

    def amounts(self, which: Which) -> Amounts:
        """Return its requests or limits in nano-units; nothing that cannot be read."""
        return read_amounts(mapping(self.body.get("resources")).get(which))


def read_amounts(quantities: object) -> Amounts:
    """Read a ResourceList in nano-units; a quantity that cannot be read is reported elsewhere, and counts as absent."""
    found: Amounts = {}
    for name, quantity in mapping(quantities).items():
        try:
            found |= amounts({name: str(quantity)}, "")
        except (DecodeError, ValueError):
            continue
    return found


def containers(pod: Body) -> Iterator[ContainerPart]:
    """Return the containers and init containers of a pod."""
    for name in ("containers", "initContainers"):
        for index, each in entries(spec(pod).get(name)):
            yield ContainerPart(f"spec.{name}[{index}]", each)


def summed(pod: Body, which: Which, *, with_overhead: bool) -> Amounts:
    """
    Return the requests or limits of a pod, with sidecars, init containers and pod-level resources.

    Overhead is added to limits only where there is one (PodLimits).
    """
    parts = list(containers(pod))
    level = read_amounts(mapping(spec(pod).get("resources")).get(which))
    found = total(
        PodAmounts(
            containers=[ContainerAmounts(each.amounts(which)) for each in parts if "initContainers" not in each.at],
            init_containers=[
                (ContainerAmounts(each.amounts(which)), text(each.body.get("restartPolicy")) == "Always")
                for each in parts
                if "initContainers" in each.at
            ],
            overhead={},
            pod_level=ContainerAmounts(level) if level else None,
            extra=(),
            is_infeasible=False,
        )
    )
    overhead = read_amounts(spec(pod).get("overhead")) if with_overhead else {}
    for name, nano in overhead.items():
        if which == "requests" or found.get(name):
            found[name] = found.get(name, 0) + nano
    return found
