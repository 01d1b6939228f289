"""
The life of a pod in two clusters: when the real one bound and ended it, and when the counterfactual one did.

    really           waits ── bound ── runs for L seconds ── ended
    counterfactual   waits ────── placed ── runs for L seconds ── leaves

L is known only when the pod has really ended. Until then it lives on in the counterfactual cluster, which therefore
frees its devices no earlier than the real cluster does, and later where it placed the pod later.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from solver.domain import ClaimId, Pod

_NODE_CONTROLLER: Final = "Node"
"""The controller of a mirror pod: no scheduler binds a static pod."""


@dataclass(slots=True, eq=False)
class PodLife:
    """
    A pod by its uid; times are seconds since the epoch, None while it has not happened.

    `pod` is the pod as it waited, without a node. `node` and `claims` are those of the counterfactual cluster, and
    `real_node` is where it really runs. A given pod was bound when it was first seen; it runs there in both clusters,
    and nothing of it is compared. `first_placed_at` stays when the counterfactual cluster evicts the pod.
    """

    pod: Pod
    seen_at: float
    is_given: bool = False
    real_node: str = ""
    bound_at: float | None = None
    ended_at: float | None = None
    first_placed_at: float | None = None
    placed_at: float | None = None
    node: str = ""
    claims: tuple[ClaimId, ...] = ()
    is_counted: bool = False
    """Whether its outcome has been counted."""
    is_evicted: bool = False
    """Whether a scheduler has really evicted it for another pod."""
    known_seconds: float | None = None
    """How long it runs, where a replay knows that beforehand."""

    @classmethod
    def of(cls, pod: Pod, now: float) -> "PodLife":
        """Begin with what the watch shows first."""
        life = cls(pod=as_waiting(pod), seen_at=now)
        life.see(pod, now)
        return life

    def see(self, pod: Pod, now: float) -> None:
        """Take a later version of the pod."""
        if not pod.node_name:
            self.pod = as_waiting(pod)
        elif self.bound_at is None:
            self.bound_at, self.real_node = now, pod.node_name
            # The watch may skip the version in which its claims existed and it still waited.
            self.pod = msgspec.structs.replace(self.pod, claims=pod.claims)

    @property
    def is_static(self) -> bool:
        """Whether the kubelet of a node made it: it can run on no other node."""
        return self.pod.controller is not None and self.pod.controller.kind == _NODE_CONTROLLER

    @property
    def run_seconds(self) -> float | None:
        """How long it really ran; None where it runs, or never ran."""
        return None if self.bound_at is None or self.ended_at is None else self.ended_at - self.bound_at

    @property
    def leaves_at(self) -> float | None:
        """When it leaves the counterfactual cluster; None while that is not known."""
        if self.known_seconds is not None:
            return None if self.placed_at is None else self.placed_at + self.known_seconds
        if self.ended_at is None:
            return None
        if self.run_seconds is None:
            return self.ended_at  # deleted while it really waited
        return None if self.placed_at is None else self.placed_at + self.run_seconds


def as_waiting(pod: Pod) -> Pod:
    """Return a pod as if no scheduler had seen it."""
    return msgspec.structs.replace(
        pod, node_name="", nominated_node_name="", started=0, is_deleting=False, is_terminal=False
    )
