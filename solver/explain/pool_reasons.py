"""Reasons about ResourceSlice pools that are not used: invalid ones, and ones of which slices are missing."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from solver.arrays import Mask
from solver.domain import Reason, ReasonCode, wording
from solver.feasibility.pools import Pool
from solver.problem.problem import Problem

_INVALID: Final = "invalid resource pools were encountered"
"""kube-scheduler's status where devices are missing and a pool of the node is invalid."""


@dataclass(slots=True, eq=False)
class PoolReasons:
    """Gives the reasons of one problem; the pools and their nodes are collected once."""

    problem: Problem
    unusable: list[tuple[Pool, Mask]] = field(init=False)
    """Pools that are not used, and the nodes that see them."""
    doubted: Mask = field(init=False)
    """Nodes that see a pool that is not used."""
    invalid: Mask = field(init=False)
    """Nodes that see an invalid pool."""

    def __post_init__(self) -> None:
        inventory, self.unusable = self.problem.inventory, []
        self.doubted, self.invalid = np.zeros((2, self.problem.node_count), dtype=np.bool_)
        for pool in inventory.pools.values():
            if pool.is_usable:
                continue
            reach, seeing = inventory.pool_reach(pool), np.zeros_like(self.invalid)
            seeing[slice(None) if reach is None else list(reach)] = True
            self.unusable.append((pool, seeing))
            self.doubted |= seeing
            if pool.invalid:
                self.invalid |= seeing

    def reasons(self, nodes: Mask) -> Iterator[Reason]:
        """Return the reasons for unusable pools that some nodes see: one for invalid pools, one for incomplete ones."""
        reached = [pool for pool, seeing in self.unusable if (seeing & nodes).any()]
        invalid = [pool for pool in reached if pool.invalid]
        partial = [pool for pool in reached if not pool.invalid]
        if invalid:
            yield Reason(code=ReasonCode.POOL_INVALID, message=self._of_invalid(invalid), status=_INVALID)
        if partial:
            yield Reason(code=ReasonCode.POOL_INCOMPLETE, message=self._of_partial(partial))

    def by_node(self) -> dict[int, tuple[str, ...]]:
        """
        Say of each pool that a node sees why it is not used.

        Pools with the name of their node are not named, so that nodes with the same problem have the same text.
        """
        found: defaultdict[int, tuple[str, ...]] = defaultdict(tuple)
        for pool, seeing in self.unusable:
            published = f"{len(pool.slices)} of {pool.slices[0].slice_count} slices are published"
            why = f"is not used: {pool.invalid}" if pool.invalid else f"is incomplete: {published}"
            for node in np.flatnonzero(seeing).tolist():
                is_own = pool.id.pool == self.problem.inventory.nodes[node].name
                name = f"the pool of {pool.id.driver}" if is_own else f"pool {pool.id}"
                found[node] = (*found[node], f"{name} {why}")
        return found

    def _of_invalid(self, pools: list[Pool]) -> str:
        if not self.problem.policy.tells_inventory:
            return f"{_by_number(len(pools))} not used: the published slices contradict each other"
        return f"pool {pools[0].id} is not used: {pools[0].invalid}{wording.and_others(len(pools))}"

    def _of_partial(self, pools: list[Pool]) -> str:
        if not self.problem.policy.tells_inventory:
            return f"{_by_number(len(pools))} incomplete: not all slices are published yet"
        first = pools[0]
        return (
            f"pool {first.id} is incomplete: {len(first.slices)} of {first.slices[0].slice_count} slices of "
            f"generation {first.generation} are published{wording.and_others(len(pools))}"
        )


def _by_number(count: int) -> str:
    return f"{wording.counted(count, 'pool')} {'is' if count == 1 else 'are'}"
