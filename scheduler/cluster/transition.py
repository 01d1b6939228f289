"""What a change, an assumption or its withdrawal did to one object of the mirror."""

import msgspec

from scheduler.change import Kind, Object
from solver.domain import Reason


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """
    An object as the mirror showed it before and after, assumptions laid over both; None where there was none.

    `key` is written as in `Change`. `conflict` is set where the watch contradicted an assumption, which is dropped
    then: the pod was bound to another node, or the claim was allocated otherwise.
    """

    kind: Kind
    key: str
    before: Object | None
    after: Object | None
    conflict: Reason | None = None
