"""
Update the inventory after slices or DeviceTaintRules changed, instead of building it anew.

A pool of which a slice came, went or changed is taken out and put in again; all other devices keep their records and
indices. The pool keeps its indices if it has as many slices as before. Else it gets unused ones at its place in the
order of search. So indices ascend in that order as ever, and whatever sorts by index or takes the first one finds what
it would find in a new inventory. Invariant: apart from the numbers themselves, the result equals what `build_inventory`
gives; a property checks it.

The caller builds from scratch where that is hardly slower or cannot be avoided: many slices changed, devices of other
slices have another value because the largest of their driver came or went, or a place has too few unused indices.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from solver.bounded_cache import BoundedCache
from solver.domain import DeviceId, DeviceTaintRule, PoolId, ResourceSlice
from solver.domain.changed_objects import changed_objects
from solver.feasibility import pools
from solver.feasibility.pools import Pool
from solver.problem.devices import inventory_builder as building
from solver.problem.devices.device_properties import TaintRules
from solver.problem.devices.inventory import DeviceRecord, Inventory, Span
from solver.problem.devices.slice_cache import Drawn, SliceCache

_MOST_SLICES: Final = 256
"""Slices concerned beyond which building the inventory anew is hardly slower."""
_END: Final = 1 << 60
"""Beyond all indices."""
_search_key: Final = attrgetter("key")


class UpdatedInventory(NamedTuple):
    """
    The new inventory, what was replaced, and the pools that were described again.

    `replaced` are the devices by index as they were, None where there was none.
    """

    inventory: Inventory
    replaced: dict[int, DeviceRecord | None]
    pools: frozenset[PoolId]


def updated_inventory(
    before: Inventory,
    old: tuple[ResourceSlice, ...],
    new: tuple[ResourceSlice, ...],
    rules: tuple[DeviceTaintRule, ...],
    slice_cache: SliceCache,
) -> UpdatedInventory | None:
    """Replace the pools that changed; None where the inventory has to be built anew."""
    gone, added = changed_objects(old, new)
    changed = {each.pool_id for each in (*gone, *added)}
    tainted = _selected(before, {*before.taint_rules.rules} ^ {*rules})
    count = len(gone) + len(added) + sum(len(before.pools[each].slices) for each in tainted)
    if count > _MOST_SLICES or before.updates + count > max(_MOST_SLICES, len(before.spans)):
        return None
    found = pools.resolve((each for each in new if each.pool_id in changed), before.pools)
    update = _InventoryUpdate(before, _copy(before, rules, count), slice_cache)
    update.publish({each: found.get(each) for each in changed})
    if not update.place(sorted(changed | tainted), tainted):
        return None
    update.describe()
    if not update.value():
        return None
    update.pair()
    return UpdatedInventory(update.made, update.replaced(), frozenset(changed | tainted))


def _selected(before: Inventory, rules: Iterable[DeviceTaintRule]) -> set[PoolId]:
    """Return the usable pools whose devices some rule may select."""
    return {
        pool_id
        for rule in rules
        for pool_id, pool in before.pools.items()
        if pool.is_usable and _may_select(rule, pool_id)
    }


def _may_select(rule: DeviceTaintRule, pool: PoolId) -> bool:
    return not rule.selects_nothing and rule.driver in {None, pool.driver} and rule.pool in {None, pool.pool}


def _copy(before: Inventory, rules: tuple[DeviceTaintRule, ...], count: int) -> Inventory:
    """Copy what every update may change: what was given out before stays as it is."""
    return replace(
        before,
        taint_rules=TaintRules(rules),
        spans=before.spans.copy(),
        own_taints=before.own_taints.copy(),
        taking_node_resources=before.taking_node_resources.copy(),
        exclusions=before.exclusions.copy(),
        budgets=before.budgets.copy(),
        undeclared=before.undeclared.copy(),
        pairings=before.pairings.copy(),
        by_home=before.by_home.copy(),
        has_devices=before.has_devices.copy(),
        hints=BoundedCache(before.hints.most_bytes),
        updates=before.updates + count,
    )


@dataclass(slots=True, eq=False)
class _InventoryUpdate:
    """
    One update in steps: `publish`, `place`, `describe`, `value`, `pair`.

    `out` and `into` are the spans that are taken out and put in, `gone` and `fresh` their records by index; `paired`
    are records of other slices that have a new value, as they were.
    """

    before: Inventory
    made: Inventory
    slice_cache: SliceCache
    draws_differ: bool = False
    out: list[Span] = field(default_factory=list)
    into: list[Span] = field(default_factory=list)
    gone: dict[int, DeviceRecord] = field(default_factory=dict)
    fresh: dict[int, DeviceRecord] = field(default_factory=dict)
    paired: dict[int, DeviceRecord] = field(default_factory=dict)

    def publish(self, now: Mapping[PoolId, Pool | None]) -> None:
        """Replace pools (None: it is gone), and what they publish whether or not they are usable."""
        made, known = self.made, self.before.pools
        for pool_id, pool in now.items():
            was = known.get(pool_id)
            for each in was.slices if was is not None else ():
                for device_id in (DeviceId(*pool_id, device.name) for device in each.devices):
                    made.own_taints.pop(device_id, None)
                    made.taking_node_resources.pop(device_id, None)
            if pool is not None:
                building.note_published(made, pool)
            self._replace_counters(was, pool)
        found = {each: pool for each, pool in {**known, **now}.items() if pool is not None}
        made.pools = found if found.keys() <= known.keys() else {each: found[each] for each in sorted(found)}

    def _replace_counters(self, was: Pool | None, now: Pool | None) -> None:
        old, new = building.counters_of(was), building.counters_of(now)
        if old == new:
            return
        self.draws_differ = True
        exclusions, budgets = self.made.exclusions, self.made.budgets
        for device in old.draws:
            del exclusions[device]
        for counter in old.budgets:
            del budgets[counter]
        exclusions.update(new.draws)
        budgets.update(new.budgets)

    def place(self, pool_ids: Iterable[PoolId], tainted: Collection[PoolId]) -> bool:
        """Take the spans of pools out, and put those of their new versions in; false where there is no room."""
        spans, known = self.made.spans, self.before.pools
        blocks = {pool_id: _taken_out(spans, known.get(pool_id)) for pool_id in pool_ids}
        for pool_id, block in blocks.items():
            pool = self.made.pools.get(pool_id)
            placed = _put_in(spans, block, pool) if pool is not None and pool.is_usable else []
            if placed is None:
                return False
            is_anew = pool_id in tainted or _has_counters(pool) or _has_counters(known.get(pool_id))
            same = set[tuple[int, int]]() if is_anew else {*map(_place, block)} & {*map(_place, placed)}
            self.out += (span for span in block if _place(span) not in same)
            self.into += (span for span in placed if _place(span) not in same)
        return True

    def describe(self) -> None:
        """Replace the records, and what finds them."""
        before, made = self.before, self.made
        self.gone = {each: before.records[each] for span in self.out for each in span.indices if each in before.records}
        for index in self.gone:
            made.undeclared.pop(index, None)
        made.draws = {}
        self.fresh = {
            each.index: each for span in self.into for each in building.add_slice(made, span, self.slice_cache)
        }
        self._replace_draws(made.draws)
        made.records = _without(before.records, self.gone.keys() - self.fresh.keys()) | self.fresh
        if not self.fresh.keys() <= self.gone.keys():
            made.records = dict(sorted(made.records.items()))
        self._replace_homes()

    def _replace_draws(self, fresh: dict[DeviceId, Drawn]) -> None:
        """Replace what devices draw and where their records are, or keep both as the same objects."""
        before, made = self.before, self.made
        devices = [DeviceId(*span.key[1], device.name) for span in self.out for device in span.slice.devices]
        was, now = _indices(self.gone), _indices(self.fresh)
        if was == now and fresh == {each: before.draws[each] for each in devices} and not self.draws_differ:
            made.draws = before.draws
            return
        made.draws = _without(before.draws, devices) | fresh
        made.record_of = _without(before.record_of, was) | now

    def _replace_homes(self) -> None:
        """List the devices of nodes, and find the nodes of counters."""
        before, made = self.before, self.made
        at: defaultdict[int, set[int]] = defaultdict(set)
        for record in (*self.gone.values(), *self.fresh.values()):
            at[record.home].add(record.index)
        for home, found in at.items():
            listed = {*found, *(before.wide if home < 0 else before.by_home[home])}
            indices = sorted(i for i in listed if i in made.records and made.records[i].home == home)
            if home < 0:
                made.wide = indices
            else:
                made.by_home[home] = indices
                made.has_devices[home] = bool(indices)
        drawn = {counter for record in self.gone.values() for counter, _ in record.counters}
        made.counter_homes = _without(before.counter_homes, drawn) | building.counter_homes(self.fresh.values())

    def value(self) -> bool:
        """Set the values of new records; false where other records have another value now."""
        made, known = self.made, self.before.size_classes
        made.size_classes = known.without(each.size_class for each in self.gone.values())
        building.set_values(made.size_classes, self.fresh.values())
        return all(known.values.get(each, value) == value for each, value in made.size_classes.values.items())

    def pair(self) -> None:
        """Add to values what devices are worth as partners of others on their nodes."""
        made = self.made
        for node in {each.home for each in (*self.gone.values(), *self.fresh.values()) if each.home >= 0}:
            was, now = made.pairings.pop(node, None), building.pairs_on(made, node)
            if now is not None:
                made.pairings[node] = now
            old, new = (each.worth if each is not None else {} for each in (was, now))
            for index in made.by_home[node]:
                record, worth = made.records[index], new.get(index, 0)
                if index in self.fresh:
                    record.value += worth
                elif worth != old.get(index, 0):
                    self.paired[index] = record
                    made.records[index] = replace(record, value=record.value + worth - old.get(index, 0))

    def replaced(self) -> dict[int, DeviceRecord | None]:
        """Return the devices that have changed by index, as they were."""
        return {index: self.gone.get(index) for index in (*self.gone, *self.fresh)} | self.paired


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _without(before: dict[_Key, _Value], keys: Iterable[_Key]) -> dict[_Key, _Value]:
    found = before.copy()
    for each in keys:
        found.pop(each, None)
    return found


def _indices(records: Mapping[int, DeviceRecord]) -> dict[DeviceId, int]:
    return {each.id: index for index, each in records.items()}


def _has_counters(pool: Pool | None) -> bool:
    return pool is not None and any(each.counter_sets for each in pool.slices)


def _place(span: Span) -> tuple[int, int]:
    return id(span.slice), span.first


def _taken_out(spans: list[Span], pool: Pool | None) -> list[Span]:
    """Remove the spans of a pool, and return them."""
    if pool is None or not pool.is_usable:
        return []
    key = building.search_key(pool)
    start, end = bisect_left(spans, key, key=_search_key), bisect_right(spans, key, key=_search_key)
    block = spans[start:end]
    del spans[start:end]
    return block


def _put_in(spans: list[Span], block: Sequence[Span], pool: Pool) -> list[Span] | None:
    """Insert and return the spans of a pool, whose last ones are `block`; None where no room is left."""
    key = building.search_key(pool)
    position = bisect_left(spans, key, key=_search_key)
    start = spans[position - 1].indices.stop if position else 0
    end = spans[position].first if position < len(spans) else _END
    firsts = _firsts(block, [len(each.devices) for each in pool.slices], start, end)
    if firsts is None:
        return None
    found = [Span(each, first, key) for each, first in zip(pool.slices, firsts, strict=True)]
    spans[position:position] = found
    return found


def _firsts(block: Sequence[Span], lengths: Sequence[int], start: int, end: int) -> list[int] | None:
    """Return the first indices of slices: those that they have if these are still free, else new ones in the middle."""
    firsts = [span.first for span in block]
    limits = (*firsts[1:], end)
    is_alike = len(firsts) == len(lengths) and min(firsts, default=start) >= start
    if is_alike and all(first + length <= limit for first, length, limit in zip(firsts, lengths, limits, strict=False)):
        return firsts
    unused = end - start - sum(lengths)
    return list(accumulate(lengths[:-1], initial=start + min(building.SPACE, unused // 2))) if unused >= 0 else None
