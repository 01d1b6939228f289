"""Whether an upgrade of Dovetail runs: then no pod moves."""

from collections.abc import Sequence
from typing import Final

from scheduler import REPLICAS
from scheduler.change import Change, Kind
from solver.domain import Pod

_LABEL: Final = tuple(REPLICAS.split("="))


class Rollouts:
    """
    Follows the replicas of Dovetail in a namespace, from the changes of the watch.

    Each revision of a Deployment has a ReplicaSet of its own: pods of two of them are there as long as a rollout lasts.
    """

    def __init__(self, namespace: str) -> None:
        self._prefix: Final = f"{namespace}/"
        self._revision_of: Final[dict[str, str]] = {}
        """The uids of ReplicaSets by the keys of their pods."""

    def see(self, changes: Sequence[Change]) -> None:
        """Take changes of the watch."""
        for change in changes:
            if change.kind is not Kind.PODS or not change.key.startswith(self._prefix):
                continue
            pod = change.value
            is_replica = isinstance(pod, Pod) and not pod.is_terminal and _LABEL in pod.labels
            if isinstance(pod, Pod) and is_replica and pod.controller is not None:
                self._revision_of[change.key] = pod.controller.uid
            else:
                self._revision_of.pop(change.key, None)

    @property
    def message(self) -> str:
        """Say that replicas are being replaced; empty where they are not."""
        count = len(set(self._revision_of.values()))
        return "" if count <= 1 else f"an upgrade runs: there are replicas of Dovetail of {count} revisions"
