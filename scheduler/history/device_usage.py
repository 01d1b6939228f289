"""
How long devices were in use and idle, from what the scheduler has seen.

The allocations are sampled every few seconds: a device counts as in use for the time between two samples. Claims that
share a device have equal parts of it; results with admin access use nothing. The sums are kept by namespace,
DeviceClass, driver and label in periods, of which the oldest are dropped. A period has at most `_MOST_KEYS` keys; what
does not fit is summed up under `OTHERS`, by driver.

Which devices a class matches is known from the counts of the fleet; a device that two classes match counts in both.
"""

import asyncio
import itertools
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.history.decision_history import InThread
from solver.domain import Claim, DeviceId, PodId, ResourceSlice
from solver.domain.fleet import DeviceCount, DeviceState

PERIODS: Final = 288
OTHERS: Final = "(others)"
"""The namespace, class and label of what has no key of its own."""
_MOST_KEYS: Final = 1_000
"""Keys of one period: at most 40 MiB for all periods."""
_SAMPLE_SECONDS: Final = 30.0
_LONGEST_SAMPLE_SECONDS: Final = 90.0
"""The most time that counts after a longer gap (the process stood still)."""

_IN_USE: Final = frozenset({DeviceState.HELD, DeviceState.SHARED})

LabelOf = Callable[[PodId], str]


class UsageKey(NamedTuple):
    """The user of devices, and their kind; `label` is the value of the configured label, "" where the pod has none."""

    namespace: str
    device_class: str
    driver: str
    label: str


class ClassKey(NamedTuple):
    """The devices of a driver that a DeviceClass matches."""

    device_class: str
    driver: str


class ClassSeconds(NamedTuple):
    """Device-seconds of the devices that a class matches: those in use, and all."""

    held: float = 0.0
    existing: float = 0.0

    def plus(self, held: float, existing: float) -> "ClassSeconds":
        """Add device-seconds."""
        return ClassSeconds(self.held + held, self.existing + existing)


@dataclass(slots=True)
class UsagePeriod:
    """
    Device-seconds of one period: in use by key, and all devices by driver, in the `seconds` that were sampled.

    `classes` has those of the devices that classes match, in `class_seconds` of them: less before the first count of
    the fleet. `begin` and `end` are seconds since the epoch.
    """

    begin: float
    end: float
    seconds: float = 0.0
    class_seconds: float = 0.0
    held: dict[UsageKey, float] = field(default_factory=dict)
    existing: dict[str, float] = field(default_factory=dict)
    classes: dict[ClassKey, ClassSeconds] = field(default_factory=dict)


class UsageTotals(NamedTuple):
    """
    Device-seconds from `begin` to `end` (seconds since the epoch), in use by key, and all devices by driver and class.

    Of this time, `seconds` were sampled: less where the process stood still. Of these, classes were known in
    `class_seconds`: less where the fleet had not been counted yet.
    """

    begin: float
    end: float
    seconds: float
    class_seconds: float
    held: Mapping[UsageKey, float]
    existing: Mapping[str, float]
    classes: Mapping[ClassKey, ClassSeconds]


class UsageSample(NamedTuple):
    """What is allocated and published at a moment, and the counts of the fleet (empty before the first count)."""

    claims: Iterable[Claim]
    slices: Iterable[ResourceSlice]
    devices: Iterable[DeviceCount] = ()


class DeviceUsage:
    """Sums of device-seconds. `sample` and `since` may run in different threads."""

    def __init__(self, hours: float) -> None:
        """Periods that end more than `hours` ago are dropped."""
        self._period_seconds: Final = hours * 3600 / PERIODS
        self._periods: Final[deque[UsagePeriod]] = deque(maxlen=PERIODS)
        self._lock: Final = threading.Lock()
        self._last: float | None = None
        self._is_counted = False

    def sample(self, seen: UsageSample, label_of: LabelOf, now: float) -> None:
        """Add the time since the last sample to what is allocated now (seconds since the epoch)."""
        last, self._last = self._last, now
        if last is None or now <= last:
            return
        seconds = min(now - last, _LONGEST_SAMPLE_SECONDS)
        held, existing, of_classes = _held(seen.claims, label_of), _existing(seen.slices), _of_classes(seen.devices)
        self._is_counted = self._is_counted or bool(of_classes)
        with self._lock:
            period = self._period(now - seconds, now)
            period.seconds += seconds
            period.class_seconds += seconds if self._is_counted else 0.0
            for wanted, count in held.items():
                key = _bounded(wanted, period.held)
                period.held[key] = period.held.get(key, 0.0) + count * seconds
            for driver, devices in existing.items():
                period.existing[driver] = period.existing.get(driver, 0.0) + devices * seconds
            for name, each in of_classes.items():
                before = period.classes.get(name, ClassSeconds())
                period.classes[name] = before.plus(each.held * seconds, each.existing * seconds)

    async def run(
        self, seen: Callable[[], UsageSample], label_of: LabelOf, in_thread: InThread = asyncio.to_thread
    ) -> None:
        """Sample for ever, in a thread."""
        while True:
            await in_thread(self.sample, seen(), label_of, time.time())
            await asyncio.sleep(_SAMPLE_SECONDS)

    def since(self, begin: float) -> UsageTotals:
        """Sum up the periods that end after `begin` (seconds since the epoch)."""
        held, existing = defaultdict[UsageKey, float](float), defaultdict[str, float](float)
        classes = defaultdict[ClassKey, ClassSeconds](ClassSeconds)
        with self._lock:
            periods = [each for each in self._periods if each.end > begin]
            for period in periods:
                for key, seconds in period.held.items():
                    held[key] += seconds
                for driver, seconds in period.existing.items():
                    existing[driver] += seconds
                for name, each in period.classes.items():
                    classes[name] = classes[name].plus(*each)
            first = min((each.begin for each in periods), default=begin)
            last = max((each.end for each in periods), default=begin)
            sampled = sum(each.seconds for each in periods)
            of_classes = sum(each.class_seconds for each in periods)
        return UsageTotals(first, last, sampled, of_classes, held, existing, classes)

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that used devices, those of the newest period first."""
        with self._lock:
            keys = itertools.chain.from_iterable(each.held for each in reversed(self._periods))
            found = dict.fromkeys(key.namespace for key in keys)
        found.pop(OTHERS, None)
        return tuple(found)

    def _period(self, begin: float, end: float) -> UsagePeriod:
        """Return the present period, a new one if the last is complete or the clock was put back."""
        if not self._periods or not 0 < end - self._periods[-1].begin <= self._period_seconds:
            self._periods.append(UsagePeriod(begin, end))
        self._periods[-1].end = end
        return self._periods[-1]


def _bounded(key: UsageKey, known: Mapping[UsageKey, float]) -> UsageKey:
    """
    Return the key, or that of the others where there are too many keys.

    Users choose labels, so these have half of the keys only: no label hides the use of another namespace.
    """
    if key.label and key not in known and len(known) >= _MOST_KEYS // 2:
        key = key._replace(label=OTHERS)
    if key in known or len(known) < _MOST_KEYS:
        return key
    return UsageKey(OTHERS, OTHERS, key.driver, OTHERS)


def _held(claims: Iterable[Claim], label_of: LabelOf) -> dict[UsageKey, float]:
    """Count the devices in use by key; a device of several claims counts in equal parts."""
    holders: defaultdict[DeviceId, list[UsageKey]] = defaultdict(list)
    for claim in claims:
        if claim.allocation is None:
            continue
        classes, label = _classes(claim), _label(claim, label_of)
        devices = {each.device: each.request for each in claim.allocation.results if not each.admin_access}
        for device, request in devices.items():
            key = UsageKey(claim.id.namespace, classes.get(request, ""), device.driver, label)
            holders[device].append(key)
    held: defaultdict[UsageKey, float] = defaultdict(float)
    for keys in holders.values():
        for key in keys:
            held[key] += 1 / len(keys)
    return held


def _classes(claim: Claim) -> dict[str, str]:
    """Return the DeviceClass of each request, by the name that allocation results have."""
    return {
        str(request.result_name(index)): alternative.device_class
        for request in claim.requests
        for index, alternative in enumerate(request.alternatives)
    }


def _label(claim: Claim, label_of: LabelOf) -> str:
    pods = (each for each in claim.reserved_for if each.resource == "pods" and not each.api_group)
    first = next(pods, None)
    return label_of(PodId(claim.id.namespace, first.name)) if first is not None else ""


def _existing(slices: Iterable[ResourceSlice]) -> Counter[str]:
    """Count the devices of the newest generation of each pool by driver."""
    slices = tuple(slices)
    newest: dict[tuple[str, str], int] = {}
    for each in slices:
        newest[each.pool_id] = max(each.generation, newest.get(each.pool_id, each.generation))
    counts: Counter[str] = Counter()
    for each in slices:
        if each.generation == newest[each.pool_id]:
            counts[each.driver] += len(each.devices)
    return counts


def _of_classes(devices: Iterable[DeviceCount]) -> dict[ClassKey, ClassSeconds]:
    """Count the devices in use, and all, of each class and driver."""
    found: defaultdict[ClassKey, ClassSeconds] = defaultdict(ClassSeconds)
    for each in devices:
        if each.device_class:
            key = ClassKey(each.device_class, each.driver)
            found[key] = found[key].plus(each.count if each.state in _IN_USE else 0, each.count)
    return found
