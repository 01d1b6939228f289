"""Both verdicts on every case of a group next to each other; what differs is asked again, and then explained."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from e2e.differential import differences, ours
from e2e.differential.differences import DIFFERENCES, Difference
from e2e.differential.groups import Case, Group
from e2e.differential.peer import Peer, Verdict
from e2e.differential.stage import Stage
from solver.domain import Policy

SETTLE_SECONDS: Final = 0.15
"""How long kube-scheduler's watches get to tell it of a new cluster; what differs is asked again after more."""
SETTLE_AGAIN_SECONDS: Final = 1.0
MOST_AT_ONCE: Final = 2
"""Differences that are tried together on one case."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    One case, both verdicts, and the differences of the list that explain why they are not the same.

    `was_late` says that they were not the same for a moment only, while a watch was late.
    """

    case: Case
    theirs: Verdict
    ours: Verdict
    because: tuple[Difference, ...] = ()
    was_late: bool = False

    @property
    def agrees(self) -> bool:
        """Say whether both sides give the same nodes, and Dovetail says the same whichever way it is asked."""
        return self.theirs.nodes == self.ours.nodes and not self.ours.is_error

    @property
    def says_otherwise(self) -> bool:
        """
        Say whether neither side finds a node, and Dovetail's message does not begin with kube-scheduler's.

        A message that bears the sign of a listed difference is about what kube-scheduler does not look at.
        """
        is_counted = self.theirs.message.startswith("0/") and not self.theirs.is_error
        is_listed = any(each.our_sign and each.our_sign in self.ours.message for each in DIFFERENCES)
        begins_alike = self.ours.message.startswith(self.theirs.message)
        return is_counted and self.agrees and not (self.ours.nodes or begins_alike or is_listed)

    @property
    def is_defect(self) -> bool:
        """Say whether the sides differ and nothing on the list says why."""
        return not self.agrees and not self.because


@dataclass(slots=True)
class Comparison:
    """Asks both sides; a group's cluster has to be in the API server."""

    stage: Stage
    peer: Peer
    kubeconfig: Path
    workers: ProcessPoolExecutor

    async def run(self, group: Group) -> list[Outcome]:
        """Build a group's cluster, compare all of its cases, and take it away again."""
        await self.stage.build(group)
        try:
            await asyncio.sleep(SETTLE_SECONDS)
            found = await self._ask(group.cases)
            return [each if each.agrees else await self._examined(each.case) for each in found]
        finally:
            await self.stage.clear(group)

    async def _examined(self, case: Case) -> Outcome:
        """Ask about a case alone once more; explain it if the two still differ."""
        await asyncio.sleep(SETTLE_AGAIN_SECONDS)
        (again,) = await self._ask([case.renamed("-again")])
        found = Outcome(case, again.theirs, again.ours, was_late=again.agrees)
        return found if found.agrees else await self._explained(found)

    async def _explained(self, found: Outcome) -> Outcome:
        """Look for differences of the list that explain what is left, one by one and then in pairs."""
        if found.ours.is_error:
            return found
        sides = differences.directions(found.theirs, found.ours)
        known = [each for each in DIFFERENCES if each.can_be_repaired and each.concerns(sides)]
        for count in range(MOST_AT_ONCE + 1):
            for number, chosen in enumerate(combinations(known, count)):
                left = await self._repaired(found, chosen, f"-fix{count}{number}") if chosen else found
                if left is None:
                    continue
                signed = differences.by_sign(left.theirs, left.ours)
                if left.agrees or signed:
                    return Outcome(found.case, found.theirs, found.ours, (*chosen, *signed))
        return found

    async def _repaired(self, found: Outcome, chosen: Sequence[Difference], suffix: str) -> Outcome | None:
        """Ask again with repairs made; None where one of them changes nothing, or what it makes is refused."""
        case, policy = found.case.renamed(suffix), Policy()
        for each in chosen:
            before = case.renamed("")
            if each.repair is not None:
                each.repair(case)
            if each.policy is not None:
                policy = each.policy
            elif case == before:
                return None
        asked = await self._ask([case], policy)
        return asked[0] if asked else None

    async def _ask(self, cases: Sequence[Case], policy: Policy = Policy()) -> list[Outcome]:  # noqa: B008 - a frozen value
        admitted = await self.stage.admit(cases)
        try:
            own = ours.verdicts(self.kubeconfig, admitted, policy, self.workers)
            theirs, judged = await asyncio.gather(self.peer.verdicts(admitted), own)
        finally:
            await self.stage.dismiss(cases)
        return [Outcome(case, theirs[uid], judged[uid]) for uid, case in admitted.items()]
