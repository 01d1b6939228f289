"""Nodes that are kept for somebody who was passed over for too long."""

from typing import Final

import msgspec

from solver.domain.ids import PodId

PASSED_OVER: Final = "passed over for too long"
"""How the reason begins that a pod gets for which nodes are held; a restart knows it by that."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """
    Nodes that are kept for pods (one, or a gang's) until those can be placed there.

    Pods of a lower priority, or of the same one and not overdue for longer, take no devices of these nodes, and of
    everything else only what is left beside `requests`, which is what the pods ask of each of the nodes. `uids` are
    the pods' uids, the first of them that of `pod`.
    """

    pod: PodId
    uids: tuple[str, ...]
    priority: int
    nodes: tuple[str, ...]
    requests: tuple[tuple[str, int], ...] = ()
    takes_devices: bool = True
