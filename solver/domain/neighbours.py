"""What a pod asks of the pods around it: host ports, affinity to other pods and against them, spreading (core/v1)."""

from typing import Final

import msgspec

from solver.domain.labels import LabelSelector

ANY_ADDRESS = "0.0.0.0"


class HostPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port of its node that a pod takes (ContainerPort.hostPort); `address` is `ANY_ADDRESS` where none is named."""

    address: str = ANY_ADDRESS
    protocol: str = "TCP"
    port: int


EVERY_PORT: Final = HostPort(protocol="", port=0)
"""Of a pod whose host ports cannot be read: no other one that wants any is put beside it."""


class PodTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """
    core/v1 PodAffinityTerm: pods that `selector` selects, seen from one domain of `topology_key`.

    Pods of `namespaces` count and of those that `namespace_selector` selects; the term's own pod's namespace is in
    `namespaces` where the API object names neither. `matchLabelKeys` and `mismatchLabelKeys` are merged into
    `selector`, as the API server does. An absent selector selects nothing.
    """

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodTerm(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 WeightedPodAffinityTerm; `weight` is 1 to 100."""

    weight: int
    term: PodTerm


class SpreadConstraint(msgspec.Struct, frozen=True, kw_only=True):
    """
    core/v1 TopologySpreadConstraint: pods that `selector` selects in the pod's namespace, counted per domain.

    `is_required` says DoNotSchedule, otherwise ScheduleAnyway. `min_domains` is 1 where none is set. `honours_affinity`
    and `honours_taints` say whether only nodes count that match the pod's node selector and affinity, and whose taints
    it tolerates (nodeAffinityPolicy, nodeTaintsPolicy; KEP-3094). `matchLabelKeys` is merged into `selector`.
    """

    topology_key: str
    max_skew: int
    is_required: bool = True
    selector: LabelSelector | None = None
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False
