"""
Adds the finalizer to claims while their pods are decided, so that one request less precedes the binding.

A decision about a few pods takes as long as such a request, and the scheduler's process waits for the worker meanwhile.
Speculative is only that the pods get a place. So it is done after a decision that has placed all its pods, and for few
pods: where many wait, requests are what is scarce. A claim gets its finalizer once. If its pod stays without a place,
the finalizer stays, and the claim controller removes it when the claim is deleted.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from scheduler.commit.claims import ClaimWriter
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Tasks
from solver.domain import FINALIZER, Claim, ClaimId, Plan, Pod

_MOST_PODS: Final = 8


class SpeculativeFinalizers:
    """Writes finalizers in tasks of their own; `find` gives a claim as the watch last showed it, with assumptions."""

    def __init__(
        self,
        writer: ClaimWriter,
        find: Callable[[ClaimId], Claim | None],
        metrics: Metrics,
        *,
        is_fresh: Callable[[], bool] = lambda: True,
    ) -> None:
        """While a watch is stale (not `is_fresh`) nothing is begun: it would only wait, also at the end."""
        self._writer: Final = writer
        self._find: Final = find
        self._is_fresh: Final = is_fresh
        self._tasks: Final = Tasks(metrics, Subsystem.COMMIT)
        self._are_placed = False

    def begin(self, pods: Collection[Pod]) -> None:
        """Begin to write the finalizers for pods whose decision begins."""
        if self._are_placed and len(pods) <= _MOST_PODS and self._is_fresh():
            for claim in self._open_claims(pods):
                self._tasks.begin(self._writer.add_finalizer(claim))

    def decided(self, plan: Plan) -> None:
        """Note whether a decision has placed all its pods."""
        self._are_placed = bool(plan.placements) and not plan.unplaced

    async def finish(self, seconds: float) -> bool:
        """Wait at most so long for the writes under way, and cancel the rest; return whether none was cancelled."""
        return await self._tasks.finish(seconds)

    def _open_claims(self, pods: Collection[Pod]) -> Iterator[Claim]:
        keys = dict.fromkeys(entry.claim for pod in pods for entry in pod.claims if entry.claim is not None)
        for claim in map(self._find, keys):
            if claim is None or claim.invalid or claim.is_deleting or claim.allocation is not None:
                continue
            if FINALIZER not in claim.finalizers:
                yield claim
