"""Which extended resources of a pod are served by devices, node by node (KEP-5004)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.domain import DeviceClass, ExtendedResourceClaim, Node, Pod, Reason
from solver.feasibility import claims as claim_rules
from solver.feasibility import extended_resources


class ExtendedResourceMode(NamedTuple):
    """
    A way to serve the extended resources of a pod: on `nodes` (None: all) devices serve `served`.

    `served` are resources with their device classes. Resources that device plugins of the nodes offer stay among the
    pod's requests.
    """

    number: int
    served: tuple[tuple[str, str], ...]
    nodes: Mask | None


_ONLY: Final = (ExtendedResourceMode(0, (), None),)


@dataclass(slots=True, eq=False)
class ExtendedResourceModes:
    """The modes of pods, cached by the extended resources that have a class."""

    nodes: tuple[Node, ...]
    classes: Mapping[str, DeviceClass]
    explicit: dict[str, str] = field(init=False)
    known: dict[tuple[tuple[str, str], ...], tuple[ExtendedResourceMode, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.explicit = extended_resources.explicit_classes(self.classes.values())

    def of(self, pod: Pod) -> tuple[ExtendedResourceMode, ...]:
        """Return the modes of a pod over all nodes; one empty mode where devices serve none of its resources."""
        mapped = tuple(self._mapped(pod))
        if not mapped or not self.nodes:
            return _ONLY
        if mapped not in self.known:
            self.known[mapped] = self._modes(mapped)
        return self.known[mapped]

    def _mapped(self, pod: Pod) -> list[tuple[str, str]]:
        if not any("/" in resource for resource, _ in pod.requests):
            return []
        names = {resource for each in pod.containers for resource, amount in each.requests if amount > 0}
        pairs = ((each, extended_resources.class_of(each, self.explicit, self.classes)) for each in sorted(names))
        return [(resource, device_class) for resource, device_class in pairs if device_class is not None]

    def _modes(self, mapped: tuple[tuple[str, str], ...]) -> tuple[ExtendedResourceMode, ...]:
        found: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for index, node in enumerate(self.nodes):
            has = {resource for resource, amount in node.allocatable if amount > 0}
            found.setdefault(tuple(pair for pair in mapped if pair[0] not in has), []).append(index)
        modes = []
        for number, (served, indices) in enumerate(sorted(found.items())):
            mask = np.zeros(len(self.nodes), dtype=np.bool_)
            mask[indices] = True
            modes.append(ExtendedResourceMode(number, served, mask))
        return tuple(modes)

    def objections(self, special: ExtendedResourceClaim) -> tuple[Reason, ...]:
        """Return the reasons why no node can allocate an extended resource claim: too many devices, a bad class."""
        return claim_rules.spec_objections("extended resources", special.requests, self.classes)
