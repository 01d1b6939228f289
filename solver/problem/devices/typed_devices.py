"""Device types with their budgets: what each demand takes of one, and what one counts for quotas."""

from collections.abc import Callable, Mapping

from solver.problem.devices.device_types import scale_of, units
from solver.problem.devices.layout import GLOBAL, OPEN, ChargedKey, DeviceLayout, DeviceType, Takes, TypeKey
from solver.problem.requests.demand import Verdict

Budgets = tuple[list[int], list[int]]
"""Totals and scales of the budgets given so far."""
CounterBudget = Callable[[int], tuple[int, int]]
"""Counter reference → its budget and scale."""
CountedType = tuple[TypeKey, int]


def device_type(
    counted: CountedType,
    budgets: Budgets,
    asked: tuple[DeviceLayout, tuple[bool, ...]],
    counter_budget: CounterBudget,
    base: int = 0,
) -> DeviceType:
    """
    Make a type and append its budgets; `base` is where the numbering of those budgets starts.

    `asked` are the layout, and which of its demands are for admin access.
    """
    key, total = counted
    layout, is_admin = asked
    drawn = tuple((counter_budget(each)[0], units(amount, counter_budget(each)[1])) for each, amount in key.counters)
    gate = new_budget(budgets, OPEN if key.sharing is not None else total, 1, base)
    capacities, amounts = _capacity_budgets(key, budgets, base)
    takes: dict[int, Takes] = {}
    for demand, verdict in key.verdicts:
        if verdict != Verdict.YES:
            continue
        if is_admin[demand]:
            takes[demand] = ()
        elif key.sharing is not None:
            takes[demand] = ((gate, 1), *amounts[demand])
        else:
            takes[demand] = ((gate, 1), *drawn)
    return DeviceType(
        verdict={demand: Verdict(verdict) for demand, verdict in key.verdicts},
        attributes=key.attributes,
        takes=takes,
        opens=drawn if key.sharing is not None else (),
        gate=gate,
        fresh=new_budget(budgets, 1, 1, base) if key.sharing is not None else -1,
        capacities=capacities,
        total=total,
        value=key.value,
        is_shareable=key.sharing is not None,
        is_suspect=key.is_suspect,
        distance=2 * key.has_conditions + (base == GLOBAL),
        charges=_charges(layout.charged, key, takes, is_wide=base == GLOBAL) if layout.charged else {},
    )


def _charges(
    charged: tuple[ChargedKey, ...], key: TypeKey, takes: Mapping[int, Takes], *, is_wide: bool
) -> dict[int, Takes]:
    """Return what one device of a type counts for quotas, for each demand that takes it."""
    met = {demand for demand, verdict in key.verdicts if verdict not in {Verdict.NO, Verdict.FAILED}}
    found: dict[int, Takes] = {}
    for demand in (demand for demand, taken in takes.items() if taken):
        consumed = dict(dict(key.sharing.consumption).get(demand) or ()) if key.sharing is not None else {}
        units = []
        for position, each in enumerate(charged):
            if each.demand not in met or (each.counts_nodes and is_wide):
                continue
            size = key.charged[position] if each.capacity else 1
            amount = consumed.get(size, 0) if isinstance(size, str) else size
            if amount:
                units.append((position, amount))
        if units:
            found[demand] = tuple(units)
    return found


def new_budget(budgets: Budgets, total: int, scale: int, base: int) -> int:
    """Append a budget, and return its number."""
    totals, scales = budgets
    totals.append(total)
    scales.append(scale)
    return base + len(totals) - 1


def _capacity_budgets(key: TypeKey, budgets: Budgets, base: int) -> tuple[dict[str, int], dict[int, Takes]]:
    """One budget per capacity that some demand consumes, in units of the consumptions' greatest common divisor."""
    if key.sharing is None:
        return {}, {}
    capacities, consumption = key.sharing
    found: dict[str, int] = {}
    amounts: dict[int, list[tuple[int, int]]] = {demand: [] for demand, _ in consumption}
    for name, total in capacities:
        per_demand = [(demand, dict(each or ()).get(name, 0)) for demand, each in consumption]
        scale = scale_of([amount for _, amount in per_demand], total)
        if not any(amount for _, amount in per_demand):
            continue
        found[name] = new_budget(budgets, total, scale, base)
        for demand, amount in per_demand:
            if amount:
                amounts[demand].append((found[name], units(amount, scale)))
    return found, {demand: tuple(each) for demand, each in amounts.items()}
