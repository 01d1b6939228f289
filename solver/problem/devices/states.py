"""What is left of every budget: the layout's totals less the usage of today."""

from solver.problem.devices.inventory import DeviceRecord, Inventory, Mask
from solver.problem.devices.layout import GLOBAL, OPEN, DeviceType, Layout
from solver.problem.devices.usage import Usage


class _Ledger:
    """Nano-unit totals per node, copied only for nodes where something is in use."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.touched: dict[int, list[int]] = {}
        self.wide = list(layout.wide_budgets[0])

    def totals(self, node: int) -> list[int]:
        if node < 0:
            return self.wide
        if node not in self.touched:
            self.touched[node] = list(self.layout.groups[self.layout.group_of[node]].totals)
        return self.touched[node]

    def take(self, node: int, budget: int, amount: int) -> None:
        self.totals(node)[budget - (GLOBAL if node < 0 else 0)] -= amount


def states(layout: Layout, inventory: Inventory, usage: Usage) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Give the units left of every budget, per node and cluster-wide; never below zero."""
    ledger = _Ledger(layout)
    for record in usage.exclusive:
        place = layout.place_of.get(record)
        if place is not None:
            kind = _type_at(layout, place)
            ledger.take(place[0], kind.gate, _held(kind))
    for record, consumed in usage.shared.items():
        place = layout.place_of.get(record)
        if place is not None:
            kind = _type_at(layout, place)
            _take_share(ledger, place[0], kind, consumed)
            if kind.is_shareable and _is_overcommitted(inventory.records[record], consumed):
                ledger.take(place[0], kind.gate, _held(kind))
    for counter, amount in usage.drawn.items():
        where = layout.counter_place.get(counter)
        if where is not None:
            ledger.take(*where, amount)
    full = [_scaled(group.totals, group.scales) for group in layout.groups]
    local = [
        _scaled(ledger.touched[node], layout.groups[group].scales) if node in ledger.touched else full[group]
        for node, group in enumerate(layout.group_of)
    ]
    return local, _scaled(ledger.wide, layout.wide_budgets[1])


def _held(kind: DeviceType) -> int:
    """Units by which an exclusive holder lowers the gate: one device, or all of a shareable one."""
    return OPEN if kind.is_shareable else 1


def _type_at(layout: Layout, place: tuple[int, int]) -> DeviceType:
    node, position = place
    return layout.wide_types[position] if node < 0 else layout.groups[layout.group_of[node]].types[position]


def _take_share(ledger: _Ledger, node: int, kind: DeviceType, consumed: dict[str, int]) -> None:
    """A share on a device that is exclusive today blocks it: an overlap would give it out twice (k/k#140797)."""
    if not kind.is_shareable:
        ledger.take(node, kind.gate, 1)
        return
    ledger.take(node, kind.fresh, 1)
    for name, budget in kind.capacities.items():
        ledger.take(node, budget, consumed.get(name, 0))


def _is_overcommitted(record: DeviceRecord, consumed: dict[str, int]) -> bool:
    """Whether shares take more than a device publishes today: then it takes no share more, not even one of nothing."""
    return any(consumed.get(name, 0) > capacity.value.nano for name, capacity in record.device.capacities)


def _scaled(totals: list[int] | tuple[int, ...], scales: list[int] | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(0, total // scale) for total, scale in zip(totals, scales, strict=True))


def whole_nodes(inventory: Inventory, usage: Usage) -> Mask:
    """Mark nodes that have devices of their own, none of them in use."""
    mask = inventory.has_devices.copy()
    records = inventory.records
    used = {records[index].home for index in (*usage.exclusive, *usage.shared)} - {-1}
    mask[list(used)] = False
    return mask
