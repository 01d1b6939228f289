"""
The history of allocations: which claim held which device, share or counter, from when to when, and what was wrong.

Pure: writes of the audit log go in (`e2e.audit.writes`), holdings and findings come out. It finds

- a device with two holders, more shares than capacity, counters over budget (`usage_findings`, at every allocation),
- an allocation that was not taken back after its pods had ended (`left`),
- writes of a scheduler that does not lead (`LeaderWrites`),
- an allocation by which a DeviceQuota's namespaces hold more than its limit (`QuotaLimits`),
- an eviction of a repair without the room of the pod's successor, or twice, and room held for too long (`RepairMoves`).

Between a write of unknown outcome and the next one about the same claim, the claim counts as free.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Self

from e2e.audit.inventory import Inventory
from e2e.audit.leader_writes import LeaderWrites
from e2e.audit.quotas import QuotaLimits
from e2e.audit.reading import DeviceKey, Finding, Json, Key, device_of, key_of, results_of
from e2e.audit.repairs import RepairMoves
from e2e.audit.usage import usage_findings
from e2e.audit.writes import Write

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_CONSUMERS: Final = frozenset({"pods", "podgroups"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """
    A claim holds a device: from the version that allocated it until the one that took it back (0: it still does).

    `consumers` are the pods and PodGroups for which it was reserved meanwhile. `consumed` is what a share takes,
    `counters` what the device draws from shared counters, each as `name=quantity`.
    """

    claim: Key
    uid: str
    device: DeviceKey
    share: str
    consumed: tuple[str, ...]
    counters: tuple[str, ...]
    consumers: tuple[str, ...]
    since: int
    since_seconds: float
    until: int = 0
    until_seconds: float = 0.0

    def __str__(self) -> str:
        what = " ".join(("/".join(self.device), *self.consumed, *self.counters))
        end = f"{_time(self.until_seconds)} ({self.until})" if self.until else "now"
        consumers = ", ".join(self.consumers) or "no pod"
        return f"{what}: {self.claim} for {consumers}, {_time(self.since_seconds)} ({self.since}) to {end}"


@dataclass(slots=True)
class History:
    """
    Everything that was held, and what was wrong with it.

    `lease` is the Lease of the scheduler whose writes are checked. An allocation may stay for `left_seconds` after its
    pods have ended. `quotas` are the limits of DeviceQuotas that it is held against.
    """

    lease: Key
    left_seconds: float
    quotas: QuotaLimits = field(default_factory=lambda: QuotaLimits({}))
    repairs: RepairMoves = field(default_factory=RepairMoves)
    holdings: list[Holding] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    allocations: int = 0
    _leaders: LeaderWrites = field(init=False)
    _claims: dict[str, Json] = field(default_factory=dict)
    _open: dict[str, list[Holding]] = field(default_factory=dict)
    _uids: dict[tuple[str, Key], str] = field(default_factory=dict)
    _told: set[tuple[str, str]] = field(default_factory=set)
    _pools: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    _slices: dict[str, Json] = field(default_factory=dict)
    _inventories: dict[tuple[str, str], Inventory] = field(default_factory=dict)
    _ended: dict[str, float] = field(default_factory=dict)
    _reserved: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _idle: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._leaders = LeaderWrites(self.lease)

    @classmethod
    def of(
        cls, writes: Iterable[Write], *, lease: Key, left_seconds: float, quota_drivers: Mapping[str, str] | None = None
    ) -> Self:
        """Read a whole log; `quota_drivers` has the driver of each class that quotas count and that is all of one."""
        history, seconds = cls(lease, left_seconds, QuotaLimits(quota_drivers or {})), 0.0
        for each in writes:
            history.see(each)
            seconds = max(seconds, each.seconds)
        history.end(seconds)
        return history

    def see(self, write: Write) -> None:
        """See the next write, in the order of versions."""
        self.findings += self._leaders.see(write)
        self.findings += self.repairs.see(write)
        if write.resource == "resourceclaims":
            self._see_claim(write)
        elif write.resource == "resourceslices" and write.stored:
            self._see_slice(write)
        elif write.resource == "devicequotas":
            self.quotas.see_quota(write)
        elif write.resource in _CONSUMERS:
            self._see_consumer(write)

    def end(self, seconds: float) -> None:
        """See the end of the log: what is still held goes to the holdings."""
        self.findings += self.repairs.end(seconds)
        for uid in list(self._open):
            self._note_left(uid, seconds)
            self.holdings += self._open[uid]

    def _uid(self, write: Write) -> str:
        """Return the uid of what a write is about, where its answer does not have it the last one of that name."""
        about = write.resource, write.key
        if write.uid:
            self._uids[about] = write.uid
        return self._uids.get(about, "")

    def _see_claim(self, write: Write) -> None:
        """Compare what a claim holds with what it held before."""
        uid = self._uid(write)
        claim = {} if write.is_gone else write.stored
        before = self._claims.pop(uid, {})
        if results_of(claim):
            self._claims[uid] = claim
        if results_of(claim) != results_of(before):
            self._take_back(uid, write)
            if results_of(claim):
                self._allocate(uid, claim, write)
                if self._leaders.is_ours(write):
                    self.findings += self.quotas.see_allocation(claim, before, self._claims.values(), write)
        self._see_reservation(uid, claim, write.seconds)

    def _allocate(self, uid: str, claim: Json, write: Write) -> None:
        self.allocations += 1
        self._open[uid] = [self._holding(result, claim, write) for result in results_of(claim)]
        pools = {each.device[:2] for each in self._open[uid]}
        for pool in sorted(pools):
            self._pools[pool].add(uid)
            claims = [self._claims[each] for each in sorted(self._pools[pool])]
            for each in usage_findings(claims, self._inventories.get(pool, Inventory([]))):
                self._tell(each, pool, f"since version {write.version} of claim {key_of(claim)}")

    def _tell(self, finding: Finding, pool: tuple[str, str], since: str) -> None:
        """Report what is wrong in a pool once, not again at every later allocation."""
        about = finding.rule, finding.subject
        if about not in self._told and finding.subject.startswith(f"{'/'.join(pool)}/"):
            self._told.add(about)
            self.findings.append(finding._replace(message=f"{finding.message}, {since}"))

    def _holding(self, result: Json, claim: Json, write: Write) -> Holding:
        device = device_of(result)
        inventory = self._inventories.get(device[:2])
        published = inventory.devices.get(device) if inventory is not None else None
        draws = (published.device.get("consumesCounters") or ()) if published is not None else ()
        return Holding(
            claim=key_of(claim),
            uid=claim["metadata"]["uid"],
            device=device,
            share=result.get("shareID", ""),
            consumed=tuple(f"{name}={amount}" for name, amount in (result.get("consumedCapacity") or {}).items()),
            counters=tuple(
                f"{each['counterSet']}/{name}={counter['value']}"
                for each in draws
                for name, counter in each["counters"].items()
            ),
            consumers=(),
            since=write.version,
            since_seconds=write.seconds,
        )

    def _take_back(self, uid: str, write: Write) -> None:
        self._note_left(uid, write.seconds)
        for each in self._open.pop(uid, ()):
            self._pools[each.device[:2]].discard(uid)
            self.holdings.append(replace(each, until=write.version, until_seconds=write.seconds))

    def _see_reservation(self, uid: str, claim: Json, seconds: float) -> None:
        """Note the consumers for which a claim is reserved, and since when all of them have ended."""
        consumers = (claim.get("status", {}).get("reservedFor") or []) if uid in self._open else []
        for each in consumers:
            self._reserved[each["uid"]].add(uid)
        names = tuple(f"{each['resource']}/{each['name']}" for each in consumers)
        if uid in self._open:
            self._open[uid] = [
                replace(each, consumers=tuple(dict.fromkeys((*each.consumers, *names)))) for each in self._open[uid]
            ]
        self._see_idle(uid, seconds)

    def _see_consumer(self, write: Write) -> None:
        """See whether a pod or a PodGroup ends: its claims have to be taken back then."""
        uid, ends = self._uid(write), _end_of(write)
        if ends is None or uid in self._ended:
            return
        self._ended[uid] = ends
        for claim in self._reserved.pop(uid, ()):
            self._see_idle(claim, write.seconds)

    def _see_idle(self, uid: str, seconds: float) -> None:
        """Note since when no consumer needs what a claim holds; forget it where one does."""
        if uid not in self._open:
            self._idle.pop(uid, None)
            return
        consumers = self._claims[uid]["status"].get("reservedFor") or ()
        if all(each["uid"] in self._ended for each in consumers):
            latest = max((self._ended[each["uid"]] for each in consumers), default=seconds)
            self._idle.setdefault(uid, max(latest, self._open[uid][0].since_seconds))
        else:
            self._idle.pop(uid, None)

    def _note_left(self, uid: str, seconds: float) -> None:
        idle = seconds - self._idle.pop(uid, seconds)
        if idle > self.left_seconds:
            holding = self._open[uid][0]
            message = f"it kept {'/'.join(holding.device)} for {idle:.0f} s after its pods had ended"
            self.findings.append(Finding("left", str(holding.claim), message))

    def _see_slice(self, write: Write) -> None:
        """Read a pool anew."""
        spec = write.stored["spec"]
        pool = spec["driver"], spec["pool"]["name"]
        self._slices[write.key.name] = write.stored
        if write.is_gone:
            del self._slices[write.key.name]
        slices = [
            each for each in self._slices.values() if (each["spec"]["driver"], each["spec"]["pool"]["name"]) == pool
        ]
        self._inventories[pool] = Inventory(slices)


def _end_of(write: Write) -> float | None:
    """When a pod or PodGroup has ended or will have, with its grace; None while nothing ends it."""
    if write.subresource == "eviction":
        return write.seconds if write.is_known else None
    metadata = write.stored.get("metadata", {})
    if "deletionTimestamp" in metadata:
        return datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
    is_over = write.is_gone or write.stored.get("status", {}).get("phase") in _ENDED
    return write.seconds if is_over else None


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")
