"""Taints that DeviceTaintRules add to devices (KEP-5055), found by what the rules select."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product

from solver.domain import DeviceId, DeviceTaintRule, Taint

_Selector = tuple[str | None, str | None, str | None]
"""Driver, pool and device that a rule selects; None: any."""


@dataclass(slots=True, eq=False)
class TaintRules:
    """Rules in their order; one without a selector selects nothing."""

    rules: tuple[DeviceTaintRule, ...] = ()
    _filed: dict[_Selector, list[tuple[int, Taint]]] = field(init=False)

    def __post_init__(self) -> None:
        """File the rules."""
        filed: defaultdict[_Selector, list[tuple[int, Taint]]] = defaultdict(list)
        for number, rule in enumerate(self.rules):
            if not rule.selects_nothing:
                filed[rule.driver, rule.pool, rule.device].append((number, rule.taint))
        self._filed = dict(filed)

    def taints(self, device: DeviceId) -> tuple[Taint, ...]:
        """Give the taints of the rules that select a device."""
        if not self._filed:
            return ()
        keys = product((None, device.driver), (None, device.pool), (None, device.device))
        found = [pair for key in keys for pair in self._filed.get(key, ())]
        found.sort(key=_number)
        return tuple(taint for _, taint in found)


def _number(filed: tuple[int, Taint]) -> int:
    return filed[0]
