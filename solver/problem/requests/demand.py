"""Demands: what one request asks of a single device, and how every device answers it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple, TypeVar

from solver.domain import (
    BINDING_FAILED_TAINT,
    AllocationMode,
    Allowance,
    AttributeValue,
    Device,
    DeviceClass,
    Policy,
    Quantity,
    ResourceSlice,
    SubRequest,
    Toleration,
)
from solver.feasibility import capacity, selectors
from solver.feasibility.capacity import Consumption
from solver.feasibility.device_attributes import AttributeName
from solver.feasibility.selectors import Source
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.slice_cache import Matched, Selectors, SliceCache
from solver.rules.taints.values import first_untolerated_taint


class Verdict(IntEnum):
    """How a device answers a demand; only YES can be allocated, all others but NO and FAILED match its selectors."""

    NO = 0
    YES = 1
    FAILED = 2
    TAINTED = 3
    CAPACITY = 4
    NOT_OWNED = 5
    OFFERED_TWICE = 6
    AVOIDED = 7
    TOO_LARGE = 8
    SPARED = 9
    UNDECLARED = 10


class DemandKey(NamedTuple):
    """
    All that decides which devices can serve a request, apart from usage and constraints.

    `extended_resource` is the name under which a device plugin may offer the same devices; empty where that does not
    matter. `within` admits only devices with these values of attributes, as `gang_domains.text_of` writes them.
    """

    class_selectors: tuple[str, ...]
    selectors: tuple[Source, ...]
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, Quantity], ...]
    is_admin: bool
    takes_all: bool
    extended_resource: str = ""
    within: tuple[tuple[AttributeName, str], ...] = ()


def key_of(alternative: SubRequest, classes: Mapping[str, DeviceClass], policy: Policy = Policy()) -> DemandKey:  # noqa: B008 - a frozen value
    """Return the key of a request, whose class must exist. Admin access takes nothing from device plugins."""
    device_class = classes[alternative.device_class]
    is_obstacle = not (policy.allocates_where_plugins_serve or alternative.admin_access)
    return DemandKey(
        class_selectors=device_class.selectors,
        selectors=selectors.of_request(alternative),
        tolerations=alternative.tolerations,
        capacity=alternative.capacity_requests,
        is_admin=alternative.admin_access,
        takes_all=alternative.allocation_mode == AllocationMode.ALL,
        extended_resource=device_class.extended_resource_name if is_obstacle else "",
    )


_NOWHERE: Final[frozenset[int]] = frozenset()


class DeviceAnswer(NamedTuple):
    """The answer of one device; see `Answers`."""

    verdict: Verdict
    consumption: Consumption | None = None
    unfit: frozenset[int] = frozenset()


_YES: Final = DeviceAnswer(Verdict.YES)


@dataclass(slots=True, eq=False)
class Answers:
    """
    The verdict of every device of the inventory that does not say NO, by record index.

    `consumption` holds, for shareable devices that say YES, what one allocation takes; `unfit` the nodes that see
    a device that says YES and have less than it takes of them (KEP-5517), or do not declare a feature that its slice
    demands (`skipNodeOperations`); `spared` those on which others serve as well (`spared_devices`).
    `failure` is the first message of a selector that failed at run time.
    """

    verdicts: dict[int, Verdict] = field(default_factory=dict)
    consumption: dict[int, Consumption] = field(default_factory=dict)
    unfit: dict[int, frozenset[int]] = field(default_factory=dict)
    spared: dict[int, frozenset[int]] = field(default_factory=dict)
    failure: str = ""

    def put(self, index: int, answer: DeviceAnswer) -> None:
        """Store the answer of a device."""
        self.verdicts[index] = answer.verdict
        if answer.consumption is not None:
            self.consumption[index] = answer.consumption
        if answer.unfit:
            self.unfit[index] = answer.unfit

    def of(self, index: int) -> DeviceAnswer:
        """Return the answer of a device that does not say NO."""
        return DeviceAnswer(self.verdicts[index], self.consumption.get(index), self.unfit.get(index, _NOWHERE))

    def lost(self, index: int) -> frozenset[int]:
        """Return the nodes that see a device but on which no pod can have it (unfit, or spared)."""
        return self.unfit.get(index, _NOWHERE) | self.spared.get(index, _NOWHERE)

    def reach(self, record: DeviceRecord, node_count: int) -> Collection[int]:
        """Return the nodes on which pods can have a device that says YES."""
        nodes, lost = range(node_count) if record.nodes is None else record.nodes, self.lost(record.index)
        return [node for node in nodes if node not in lost] if lost else nodes

    def left_out(self) -> frozenset[tuple[int, frozenset[int] | None]]:
        """Return the devices that are spared, each with the nodes; None for all nodes that see it."""
        everywhere = ((index, None) for index, said in self.verdicts.items() if said is Verdict.SPARED)
        return frozenset((*everywhere, *self.spared.items()))

    def at(self, record: DeviceRecord, node: int) -> Verdict:
        """Return the verdict of a device for pods on a node; NO where the node does not see it."""
        if record.nodes is not None and node not in record.nodes:
            return Verdict.NO
        if node in self.unfit.get(record.index, ()):
            return Verdict.TOO_LARGE
        if node in self.spared.get(record.index, ()):
            return Verdict.SPARED
        return self.verdicts.get(record.index, Verdict.NO)


def ask(inventory: Inventory, key: DemandKey, slice_cache: SliceCache | None = None) -> Answers:
    """Compute the answers of all devices; results of selectors come from the slice cache where it has them."""
    answers, slice_cache, node_matcher = (
        Answers(),
        SliceCache() if slice_cache is None else slice_cache,
        _DemandCheck.of(inventory, key),
    )
    compiled = [selectors.compile_selector(text) for text in key.class_selectors + key.selectors]
    names = (key.class_selectors, key.selectors)
    for record, matched in _matching(
        inventory, lambda each: slice_cache.matched(names, each, partial(_matched, compiled))
    ):
        if matched is not True:
            answers.verdicts[record.index] = Verdict.FAILED
            message = matched.message if isinstance(matched, selectors.SelectorFailure) else ""
            answers.failure = answers.failure or f"on device {record.id}: {message}"
            continue
        answers.put(record.index, node_matcher.answer(record))
    return answers


def matching(inventory: Inventory, class_selectors: tuple[str, ...], slice_cache: SliceCache) -> Iterator[int]:
    """Return the records that the selectors of a class match. Raise `SelectorError` where one cannot be compiled."""
    compiled, names = [selectors.compile_selector(text) for text in class_selectors], (class_selectors, ())
    found = _matching(inventory, lambda each: slice_cache.matched(names, each, partial(_matched, compiled)))
    return (record.index for record, outcome in found if outcome is True)


def prefetch_selectors(inventory: Inventory, keys: Iterable[DemandKey], slice_cache: SliceCache) -> None:
    """
    Evaluate the selectors of several demands on all devices at once, into the slice cache.

    The attributes of a device are read once, and a selector that several demands have is evaluated once.
    """
    wanted = {
        names: [selectors.compile_selector(text) for text in (*names[0], *names[1])]
        for names in dict.fromkeys((key.class_selectors, key.selectors) for key in keys)
    }
    for each in (span.slice for span in inventory.spans) if len(wanted) > 1 else ():
        missing = {names: compiled for names, compiled in wanted.items() if not slice_cache.knows(names, each)}
        if not missing or not each.devices:
            continue
        for names, matched in _asked(each, missing).items():
            slice_cache.note(names, each, matched)


def _asked(each: ResourceSlice, wanted: Mapping[Selectors, list[selectors.Selector]]) -> dict[Selectors, Matched]:
    """Evaluate selectors on every device of a slice."""
    found: dict[Selectors, Matched] = {names: {} for names in wanted}
    for position, device in enumerate(each.devices):
        asking = DeviceEvaluation(each.driver, device, dict(device.attributes))
        for names, compiled in wanted.items():
            outcome = asking.all(compiled)
            if outcome is not False:
                found[names][position] = outcome
    return found


@dataclass(slots=True, eq=False)
class DeviceEvaluation:
    """One device, and the results of selectors on it."""

    driver: str
    device: Device
    attributes: dict[str, AttributeValue]
    outcomes: dict[selectors.Selector, bool | selectors.SelectorFailure] = field(default_factory=dict)

    def all(
        self, compiled: list[selectors.Selector], allowance: Allowance | None = None
    ) -> bool | selectors.SelectorFailure:
        """AND in order; the first false or failure decides. Raises `AllowanceSpentError` once the allowance ends."""
        for selector in compiled:
            outcome = self.outcomes.get(selector)
            if outcome is None:
                outcome = selector.evaluate(self.driver, self.device, self.attributes, allowance)
                self.outcomes[selector] = outcome
            if outcome is not True:
                return outcome
        return True


_Part = TypeVar("_Part")


def ask_again(
    inventory: Inventory, key: DemandKey, before: Answers, changed: Collection[int], slice_cache: SliceCache
) -> Answers:
    """Compute the answers of changed devices only; where a selector fails, those of all devices."""
    compiled = [selectors.compile_selector(text) for text in key.class_selectors + key.selectors]
    names = (key.class_selectors, key.selectors)
    records = [inventory.records[index] for index in sorted(changed) if index in inventory.records]
    slices = [inventory.slice_of(record.index) for record in records]
    found_in = [slice_cache.matched(names, each, partial(_matched, compiled)) for each in slices]
    outcomes = [matched.get(record.position, False) for matched, record in zip(found_in, records, strict=True)]
    if before.failure or not all(isinstance(outcome, bool) for outcome in outcomes):
        return ask(inventory, key, slice_cache)
    node_matcher = _DemandCheck.of(inventory, key)
    new = {record.index: node_matcher.answer(record) for record, found in zip(records, outcomes, strict=True) if found}
    answers = Answers()
    for index, answer in new.items():
        answers.put(index, answer)
    return Answers(
        verdicts=_replaced(before.verdicts, changed, answers.verdicts),
        consumption=_replaced(before.consumption, changed, answers.consumption),
        unfit=_replaced(before.unfit, changed, answers.unfit),
    )


def _replaced(before: Mapping[int, _Part], changed: Iterable[int], new: Mapping[int, _Part]) -> dict[int, _Part]:
    """Put the parts of changed devices in the place of the old ones, in the order of the inventory."""
    found = dict(before)
    for index in changed:
        if index not in new:
            found.pop(index, None)
    found.update(new)
    return found if new.keys() <= before.keys() else dict(sorted(found.items()))


def _matching(
    inventory: Inventory, matched_by: Callable[[ResourceSlice], Matched]
) -> Iterator[tuple[DeviceRecord, bool | selectors.SelectorFailure]]:
    """Return the records that match, or on which a selector fails, in the order of the inventory."""
    records = inventory.records
    for span in inventory.spans:
        present = [records[index] for index in span.indices if index in records]
        matched = matched_by(span.slice) if present else {}
        for record in present if matched else ():
            outcome = matched.get(record.position, False)
            if outcome is not False:
                yield record, outcome


def _matched(compiled: list[selectors.Selector], each: ResourceSlice) -> Matched:
    """Evaluate selectors on every device of a slice."""
    if not compiled:
        return dict.fromkeys(range(len(each.devices)), True)
    if each.devices and not any(selector.reads_device for selector in compiled):
        outcome = _matches(compiled, each.driver, each.devices[0])
        return dict.fromkeys(range(len(each.devices)), outcome) if outcome is not False else {}
    outcomes = ((index, _matches(compiled, each.driver, device)) for index, device in enumerate(each.devices))
    return {index: outcome for index, outcome in outcomes if outcome is not False}


def _plugin_nodes(inventory: Inventory, resource: str) -> frozenset[int]:
    """Nodes whose device plugin offers an extended resource, and so the same hardware."""
    if not resource:
        return frozenset()
    return frozenset(index for index, node in enumerate(inventory.nodes) if dict(node.allocatable).get(resource, 0) > 0)


def _matches(compiled: list[selectors.Selector], driver: str, device: Device) -> bool | selectors.SelectorFailure:
    """AND in order, class selectors first."""
    return DeviceEvaluation(driver, device, dict(device.attributes)).all(compiled)


@dataclass(slots=True, eq=False)
class _DemandCheck:
    """The answer of devices that the selectors of a demand match; `taken` caches what it consumes, by size class."""

    key: DemandKey
    requested: Mapping[str, Quantity]
    plugins: frozenset[int]
    inventory: Inventory
    taken: dict[int, Consumption | None] = field(default_factory=dict)

    @classmethod
    def of(cls, inventory: Inventory, key: DemandKey) -> "_DemandCheck":
        """Prepare for a demand."""
        return cls(key, dict(key.capacity), _plugin_nodes(inventory, key.extended_resource), inventory)

    def answer(self, record: DeviceRecord) -> DeviceAnswer:
        """Return the answer of a device."""
        size = record.size_class
        if size not in self.taken:
            self.taken[size] = capacity.consumption(record.id.driver, record.device, self.requested)
        consumption = self.taken[size]
        if consumption is None:
            return DeviceAnswer(Verdict.CAPACITY)
        taint = first_untolerated_taint(record.taints, self.key.tolerations) if record.taints else None
        if taint is not None:
            return DeviceAnswer(Verdict.AVOIDED if taint.key == BINDING_FAILED_TAINT else Verdict.TAINTED)
        if not record.is_owned:
            return DeviceAnswer(Verdict.NOT_OWNED)
        undeclared, device = self.inventory.undeclared.get(record.index, _NOWHERE), record.device
        unfit = undeclared | self._too_small(record, consumption) if device.takes_node_resources else undeclared
        seeing = len(self.inventory.nodes) if record.nodes is None else len(record.nodes)
        if unfit and len(unfit) == seeing:
            return DeviceAnswer(Verdict.UNDECLARED if len(undeclared) == seeing else Verdict.TOO_LARGE)
        if record.home in self.plugins:
            return DeviceAnswer(Verdict.OFFERED_TWICE)
        if not (unfit or device.allow_multiple_allocations):
            return _YES
        return DeviceAnswer(Verdict.YES, consumption if device.allow_multiple_allocations else None, unfit)

    def _too_small(self, record: DeviceRecord, consumption: Consumption) -> frozenset[int]:
        """Return the nodes with less than the device takes of them; admin access takes nothing."""
        if self.key.is_admin:
            return frozenset()
        return self.inventory.sizes.too_small(record.device, dict(consumption), record.nodes)
