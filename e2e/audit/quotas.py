"""
Limits of DeviceQuotas in the history: no write of the scheduler takes what a quota's namespaces hold beyond its limit.

Only quotas whose meaning needs no selectors are judged: of a class that is all devices of one driver, with namespaces
by their names. A quota binds some time after its last change, when every decision from before has been written.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from e2e.audit.reading import Finding, Json, key_of, results_of
from e2e.audit.writes import Write

NAME_LABEL: Final = "kubernetes.io/metadata.name"
BINDS_SECONDS: Final = 45.0
"""A watch may be stale for so long before its reader writes no more, and a decision is written within the rest."""


class _Limit(NamedTuple):
    """A limit of a quota, since when it is as it is."""

    quota: str
    driver: str
    namespaces: frozenset[str]
    most: int
    since_seconds: float


@dataclass(slots=True)
class QuotaLimits:
    """The limits in force; `drivers` has the driver of each class that is all devices of one."""

    drivers: Mapping[str, str]
    judged: int = 0
    """Writes that were held against a limit."""
    _limits: dict[str, list[_Limit]] = field(default_factory=dict)

    def see_quota(self, write: Write) -> None:
        """See a quota change, also by a write whose outcome is not known: it binds no sooner for it."""
        if write.subresource:
            return
        self._limits.pop(write.key.name, None)
        if write.stored and not write.is_gone:
            self._limits[write.key.name] = list(self._read(write))

    def _read(self, write: Write) -> Iterator[_Limit]:
        spec = write.stored["spec"]
        terms = spec.get("namespaceSelector", {}).get("matchExpressions") or []
        names = frozenset(terms[0]["values"]) if len(terms) == 1 and terms[0]["key"] == NAME_LABEL else frozenset()
        for each in spec.get("resources") or ():
            is_plain = "capacity" not in each and each.get("shape", "devices") == "devices"
            if names and is_plain and "limit" in each and each["deviceClass"] in self.drivers:
                driver = self.drivers[each["deviceClass"]]
                yield _Limit(write.key.name, driver, names, int(each["limit"]), write.seconds)

    def see_allocation(self, claim: Json, before: Json, claims: Iterable[Json], write: Write) -> Iterator[Finding]:
        """See the scheduler write what a claim has; `claims` are all allocated ones, this one included."""
        namespace = key_of(claim).namespace
        for limit in (each for limits in self._limits.values() for each in limits):
            if namespace not in limit.namespaces or write.seconds < limit.since_seconds + BINDS_SECONDS:
                continue
            added = _count(claim, limit.driver) - _count(before, limit.driver)
            if added <= 0:
                continue
            self.judged += 1
            held = sum(_count(each, limit.driver) for each in claims if key_of(each).namespace in limit.namespaces)
            if held > limit.most:
                message = f"{held} devices of {limit.driver} are held with claim {key_of(claim)} at version "
                yield Finding("quota", limit.quota, f"{message}{write.version}, and its limit is {limit.most}")


def _count(claim: Json, driver: str) -> int:
    return sum(each["driver"] == driver and not each.get("adminAccess") for each in results_of(claim))
