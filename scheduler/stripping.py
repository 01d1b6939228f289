"""
Pods that are not to be placed here are kept without what says where they may run.

A pod of another scheduler, and one that has its node, count with what they hold and forbid. Its author may have
written a megabyte of tolerations and selectors, and nobody limits how many such pods there are.
"""

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from scheduler.interning import size_of
from solver.domain import Pod

_MOST_BYTES: Final = 16 * 1024
"""Of pods of our own, which `dovetail defrag` places again: one that says more counts there as fit for any node."""
_NOTHING: Final[dict[str, object]] = {
    "node_selector": (),
    "required_affinity": None,
    "preferred_node_affinity": (),
    "spread": (),
    "images": (),
    "tolerations": (),
    "containers": (),
    "level_slack": (),
}


def stripped(pod: Pod, scheduler_names: Collection[str]) -> Pod:
    """Give a pod as it is kept; one that waits for one of these schedulers is kept whole."""
    if pod.scheduler_name in scheduler_names and not pod.node_name:
        return pod
    said = [part for name in _NOTHING if (part := getattr(pod, name))]
    if not said or (pod.scheduler_name in scheduler_names and sum(map(size_of, said)) <= _MOST_BYTES):
        return pod
    return replace(pod, **_NOTHING)
