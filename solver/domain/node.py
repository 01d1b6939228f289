"""Nodes and namespaces (core/v1)."""

from typing import Final

import msgspec

from solver.domain.label_selectors import Taint

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label with a node's own name."""


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace with its labels, sorted by key."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """
    A node.

    `allocatable` is sorted by resource name: cpu in millicores, everything else in whole units (bytes, pods,
    devices). `labels` is sorted by key, and so is `declared_features` (`status.declaredFeatures`, KEP-5328). `images`
    are pairs of image name and size in bytes.
    """

    name: str
    uid: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    is_unschedulable: bool = False
    allocatable: tuple[tuple[str, int], ...] = ()
    images: tuple[tuple[str, int], ...] = ()
    declared_features: tuple[str, ...] = ()
