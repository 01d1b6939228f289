"""What is looked at to help some pods: the nodes that promise the least harm, who may go there, and what is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from solver.domain import Batch, Budget, Policy, Snapshot
from solver.extract import Extracted
from solver.model.rules.keeping import Residents
from solver.preemption import placing
from solver.preemption.ground import Ground
from solver.preemption.offers import Offers
from solver.preemption.parties import Party, pods_of
from solver.preemption.residents import residents
from solver.preemption.vacancy import without
from solver.problem.memory import Engine
from solver.problem.prepare import prepare
from solver.problem.problem import Problem


class View(NamedTuple):
    """What a unit is helped in: all of the cluster, or a part that decides alone; `engine` goes with its nodes."""

    snapshot: Snapshot
    engine: Engine


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """
    Pods to be helped and the parties that may go for them, on the nodes of `names`, the most promising first.

    `problem` is that of the pods without all parties, `are_all` says that no other nodes could take them.
    `is_overfull` says that more runs on one of the nodes than there is room for: the model is strict there.
    """

    batch: Batch
    view: View
    names: Sequence[str]
    parties: tuple[Party, ...]
    problem: Problem
    are_all: bool
    is_overfull: bool
    policy: Policy
    budget: Budget

    def cleared(self, parties: Sequence[Party]) -> Snapshot:
        """Give the view without some parties."""
        return without(self.view.snapshot, pods_of(parties), frees_devices=self.policy.preemption.frees_devices)

    def placed(self, parties: Sequence[Party], batch: Batch) -> Extracted | None:
        """Place pods of the batch, all of them, in the view without some parties."""
        return placing.place_all(self.cleared(parties), batch, self.policy, self.budget, self.view.engine)

    def fits(self, parties: Sequence[Party]) -> bool:
        """Whether the whole batch fits without some parties; no, once the time is up."""
        return not self.budget.should_stop() and self.placed(parties, self.batch) is not None

    @property
    def nodes(self) -> list[int]:
        """The nodes in the numbers of the problem."""
        return [self.problem.inventory.node_index[name] for name in self.names]

    @property
    def held(self) -> Residents:
        """What the parties hold, in the words of the problem."""
        return residents(self.problem, self.view.snapshot, self.parties)


@dataclass(frozen=True, slots=True, eq=False)
class Lookout:
    """Looks for what concerns some pods, in a cluster as it is left so far."""

    whole: Problem
    ground: Ground
    engine: Engine
    policy: Policy
    budget: Budget

    def outlook(self, batch: Batch, offers: Offers, most_nodes: int | None = None) -> Outlook | None:
        """Choose nodes and cut them out; None where the pods cannot be placed whoever goes, or the time is up."""
        outline = prepare(offers.cleared, batch, self.policy, self.engine)
        if outline.rejected or self.budget.should_stop():
            return None
        chosen, are_all = offers.ranks.nodes(outline, self.ground.room, self.ground.free_devices)
        chosen, are_all = chosen[:most_nodes], are_all and len(chosen[:most_nodes]) == len(chosen)
        names = [outline.inventory.nodes[node].name for node in chosen]
        parties = offers.near(names, self.ground.origin.budgets)
        view = self._view(names, batch, parties)
        cleared = without(view.snapshot, pods_of(parties), frees_devices=self.policy.preemption.frees_devices)
        problem = prepare(cleared, batch, self.policy, view.engine)
        problem.is_whole = problem.is_whole & False
        is_overfull = any((free[chosen] < 0).any() for free in self.ground.room.free.values())
        return Outlook(batch, view, names, parties, problem, are_all, is_overfull, self.policy, self.budget)

    def _view(self, names: Sequence[str], batch: Batch, parties: Sequence[Party]) -> View:
        """Cut out the nodes that are looked at, unless others decide with them."""
        stock, snapshot = self.whole.inventory, self.whole.snapshot
        around = self.engine.neighbours(stock, snapshot.pods).residents
        if len(names) == self.whole.node_count or not self.ground.is_local(batch, around):
            return View(self.ground.whole(), self.engine)
        others = (pod for party in parties for pod in party.pods)
        return View(self.ground.part(names, batch, others), Engine())


class Found(NamedTuple):
    """Who goes, where the pods are then, what of the view is left without who goes, and if no others do less harm."""

    evicted: tuple[Party, ...]
    placed: Extracted
    view: View
    left: Snapshot
    is_proven: bool
