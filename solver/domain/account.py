"""One pod's whole story: what keeps it waiting, kind of node by kind of node, and what would let it in."""

import msgspec

from solver.domain.ids import PodId
from solver.domain.reasons import Reason


class RequestCount(msgspec.Struct, frozen=True, kw_only=True):
    """
    Devices of one node for one request (or one alternative of it: `request/alternative`).

    `needed` is 0 where all that match are asked for. `untainted` are those of the free ones that can be given to the
    request as they are; `aligned` are the most of these that agree with the request's constraints (None: it has
    none); `together` is how many it can get beside the pod's other requests, at most what it needs.
    """

    request: str
    needed: int
    matching: int
    free: int
    untainted: int
    aligned: int | None = None
    together: int = 0


class NodeKind(msgspec.Struct, frozen=True, kw_only=True):
    """
    Nodes with the same answer.

    `objections` are what keeps the pod from them whatever devices they have; `conflict` is a smallest set of things
    of which one has to give way (no part of it is in conflict without the rest).
    """

    nodes: tuple[str, ...]
    fits: bool
    objections: tuple[str, ...] = ()
    requests: tuple[RequestCount, ...] = ()
    conflict: tuple[str, ...] = ()


class NearestChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something that would let the pod in on a node: solved with the change made, not guessed."""

    message: str
    node: str


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod's story.

    `node` is where the plan places it, empty where it waits. A pod that fits alone and waits lost to `lost_to` (pods
    that the plan places where it would fit); `is_proven` says that no plan places more of its priority.
    """

    pod: PodId
    node: str = ""
    reasons: tuple[Reason, ...] = ()
    kinds: tuple[NodeKind, ...] = ()
    lost_to: tuple[PodId, ...] = ()
    is_proven: bool = True
    changes: tuple[NearestChange, ...] = ()
