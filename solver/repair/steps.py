"""The order of moves: the room of each successor is free before its predecessor goes; judged by the checker."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import Allocation, ClaimId, Move, Pod, Policy, RepairGoal, Snapshot
from solver.extract import Extracted
from solver.repair.successors import predecessor_claim, successor_id
from solver.verify import MoveChecker


@dataclass(frozen=True, slots=True)
class OrderedMoves:
    """Moves with their steps; in the end some may be left that depend on each other in a cycle."""

    moves: tuple[Move, ...]
    is_stepwise: bool


class Leaving(NamedTuple):
    """
    The pods that move: `movable` make room, each alone, and the pods of each of `groups` leave together.

    `spared` leave first, without a place for their successors: their gangs have more members than they need.
    """

    movable: Sequence[Pod]
    groups: Sequence[tuple[Pod, ...]]
    spared: Sequence[Pod] = ()

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All of them."""
        return (*self.movable, *(pod for group in self.groups for pod in group), *self.spared)


def ordered(
    snapshot: Snapshot,
    goal: RepairGoal,
    policy: Policy,
    placed: Extracted,
    leaving: Leaving,
) -> OrderedMoves | None:
    """
    Put moves in an order in which each is possible; None where the wanted pods do not fit in the end.

    Members that their gangs can spare go first, then what makes room, then pods that have to leave.
    """
    made = _moves(placed)
    parties: list[tuple[Move, ...]] = [
        (Move(pod=pod.id, pod_uid=pod.uid, source=pod.node_name, target=""),) for pod in leaving.spared
    ]
    parties += [(made(pod),) for pod in leaving.movable]
    parties += [tuple(made(pod) for pod in group) for group in leaving.groups]
    checker = MoveChecker(snapshot, goal, policy)
    waiting, moves = deque(parties), list[Move]()
    step = failed = 0
    while waiting and failed < len(waiting):
        party = tuple(replace(move, step=step + 1) for move in waiting.popleft())
        if checker.step(party):
            waiting.append(party)
            failed += 1
            continue
        step, failed = step + 1, 0
        moves += party
    if waiting:
        left = tuple(replace(move, step=step + 1) for party in waiting for move in party)
        return OrderedMoves((*moves, *left), is_stepwise=False)
    own = {pod.id for pod in goal.wanted.pods}
    placements = tuple(each for each in placed.placements if each.pod in own)
    return None if checker.finish(placements, placed.allocations) else OrderedMoves(tuple(moves), is_stepwise=True)


def _spared(pod: Pod) -> Move:
    return Move(pod=pod.id, pod_uid=pod.uid, source=pod.node_name, target="")


def _moves(placed: Extracted) -> Callable[[Pod], Move]:
    nodes = {each.pod: each for each in placed.placements}
    allocations: dict[ClaimId, Allocation] = {each.claim: each.allocation for each in placed.allocations}

    def made(pod: Pod) -> Move:
        placement = nodes[successor_id(pod.id)]
        given = tuple(
            (predecessor_claim(claim), allocations[claim]) for claim in placement.claims if claim in allocations
        )
        return Move(pod=pod.id, pod_uid=pod.uid, source=pod.node_name, target=placement.node, allocations=given)

    return made
