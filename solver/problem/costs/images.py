"""What a node that has the images of a pod is worth (ImageLocality)."""

from collections.abc import Iterable
from typing import Final

_MIB: Final = 1024 * 1024
_LEAST_IMAGE: Final = 23 * _MIB
_LARGEST_IMAGE: Final = 1000 * _MIB
_MOST: Final = 100


def image_name(text: str) -> str:
    """Return an image's name with a tag, as nodes list it."""
    return text if text.rfind(":") > text.rfind("/") else f"{text}:latest"


def image_score(sizes: Iterable[int], image_count: int) -> int:
    """
    Score a node (0 to 100) by its bytes of a pod's images, each scaled by the share of nodes with it (ImageLocality).

    The score is 0 below 23 MiB, and grows up to 1000 MiB per image, as in kube-scheduler.
    """
    most = _LARGEST_IMAGE * max(1, image_count)
    found = min(max(sum(sizes), _LEAST_IMAGE), most)
    return _MOST * (found - _LEAST_IMAGE) // (most - _LEAST_IMAGE)
