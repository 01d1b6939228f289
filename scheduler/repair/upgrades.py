"""Whether an upgrade runs, of Dovetail or of the API servers: then no pod moves."""

from collections.abc import Iterable
from typing import Final

from solver.domain import Pod

_LABEL: Final = ("app.kubernetes.io/name", "dovetail")
"""The label of the scheduler's pods in deploy/base and the chart."""


def rollout(pods: Iterable[Pod], namespace: str) -> str:
    """
    Say that replicas of Dovetail in a namespace are being replaced; empty where they are not.

    Each revision of a Deployment has a ReplicaSet of its own: pods of two of them are there as long as a rollout lasts.
    """
    replicas = (pod for pod in pods if pod.id.namespace == namespace and _LABEL in pod.labels)
    revisions = {pod.controller.uid for pod in replicas if pod.controller is not None and not pod.is_terminal}
    is_one = len(revisions) <= 1
    return "" if is_one else f"an upgrade runs: there are replicas of Dovetail of {len(revisions)} revisions"
