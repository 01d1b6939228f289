"""What a pod and a node prefer of each other, short of demanding it: soft node affinity, PreferNoSchedule, images."""

from collections.abc import Iterable
from typing import Final

from solver.domain import Node, Taint, TaintEffect, Toleration
from solver.feasibility import taints

_MIB: Final = 1024 * 1024
_LEAST_IMAGE: Final = 23 * _MIB
_LARGEST_IMAGE: Final = 1000 * _MIB
_MOST: Final = 100


def discouraging(node: Node) -> tuple[Taint, ...]:
    """Give the taints that ask pods to stay away without forbidding it."""
    return tuple(each for each in node.taints if each.effect == TaintEffect.PREFER_NO_SCHEDULE)


def untolerated_count(node: Node, tolerations: tuple[Toleration, ...]) -> int:
    """Count the PreferNoSchedule taints that no toleration covers."""
    return sum(not any(taints.tolerates(each, taint) for each in tolerations) for taint in discouraging(node))


def image_name(text: str) -> str:
    """Give an image's name as nodes list it: with a tag."""
    return text if text.rfind(":") > text.rfind("/") else f"{text}:latest"


def image_score(sizes: Iterable[int], image_count: int) -> int:
    """
    Score (0 to 100) a node by the bytes of a pod's images that it has, each scaled by the share of nodes that have it.

    Less than 23 MiB is not worth anything, and 1000 MiB an image is the most that counts, as in kube-scheduler.
    """
    most = _LARGEST_IMAGE * max(1, image_count)
    found = min(max(sum(sizes), _LEAST_IMAGE), most)
    return _MOST * (found - _LEAST_IMAGE) // (most - _LEAST_IMAGE)
