"""A column of the configuration model, and how often columns are used."""

from dataclasses import dataclass
from typing import NamedTuple

from solver.repair.node_kinds import GangShape


class NodeColumn(NamedTuple):
    """What happens on one node of a kind: how many pods come by pod type, and how many leave by stay type."""

    kind: int
    pods: tuple[tuple[int, int], ...]
    moved: tuple[tuple[int, int], ...]

    @property
    def moves(self) -> int:
        """How many pods leave."""
        return sum(count for _, count in self.moved)


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """How often each column is used, and how many gangs of a shape are in each domain; is_best: with these columns."""

    columns: dict[NodeColumn, int]
    gangs: dict[tuple[GangShape, int], int]
    is_best: bool

    @property
    def moves(self) -> int:
        """How many pods leave on all nodes together."""
        return sum(column.moves * count for column, count in self.columns.items())
