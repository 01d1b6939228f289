"""What rules between pods are worked out from: nodes, running pods, and whom terms are about."""

from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from solver.domain import NodeSelector, Toleration
from solver.feasibility import taints
from solver.problem.bounded import MIB, Bounded
from solver.problem.devices.inventory import Inventory, Mask
from solver.problem.judging import Judge
from solver.problem.neighbours.audience import Audience, Audiences
from solver.problem.neighbours.residents import Counts, Residents
from solver.problem.neighbours.topology import Topologies

_MOST_BYTES: Final = 16 * MIB


class Honoured(NamedTuple):
    """What a spread constraint honours of what its pod says of nodes; None: it does not."""

    node_selector: tuple[tuple[str, str], ...] | None = None
    required_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] | None = None


@dataclass(slots=True, eq=False)
class Memory:
    """What holds as long as the nodes do, and the running pods as they were last."""

    stock: Inventory
    judge: Judge
    topologies: Topologies
    residents: Residents
    willing: Bounded[Honoured, Mask] = field(default_factory=partial(Bounded, _MOST_BYTES))


@dataclass(slots=True, eq=False)
class Surroundings:
    """One batch's view of nodes, running pods and audiences."""

    memory: Memory
    audiences: Audiences
    _counts: dict[tuple[Audience, ...], Counts] = field(default_factory=dict)

    @property
    def topologies(self) -> Topologies:
        """Nodes by the value of labels."""
        return self.memory.topologies

    @property
    def residents(self) -> Residents:
        """Running pods."""
        return self.memory.residents

    def counts(self, *wanted: Audience) -> Counts:
        """Count the running pods that are in every one of some audiences, on each node."""
        found = self._counts.get(wanted)
        if found is None:
            found = self._counts[wanted] = self.residents.counts(wanted, self.audiences)
        return found

    def willing(self, honoured: Honoured) -> Mask:
        """Nodes that match what a constraint honours."""
        found = self.memory.willing.get(honoured)
        if found is None:
            found = self.memory.willing[honoured] = _willing(self.memory, honoured)
        return found


def _willing(memory: Memory, honoured: Honoured) -> Mask:
    mask = memory.judge.suiting(honoured.node_selector or (), honoured.required_affinity)
    if honoured.tolerations is not None:
        tainted = ((index, node.taints) for index, node in enumerate(memory.stock.nodes) if node.taints)
        refused = [i for i, each in tainted if taints.first_untolerated(each, honoured.tolerations) is not None]
        mask[refused] = False
    return mask
