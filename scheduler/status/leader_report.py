"""
How the leader does, in an annotation of its Lease: what `dovetail status` shows and only the scheduler knows.

The leader writes it with each renewal. So it needs no port, no right but to read the Lease, and is still there when no
replica runs any more. It names no pod.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Kind
from scheduler.history.recent_work import RecentWork, WorkCounts
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.observe.health import CheckState, Health
from scheduler.observe.metrics import Metrics
from scheduler.queue import PodState
from scheduler.unreadable import cut

REPORT_SECONDS: Final = 5.0
"""How often the leader makes a new report."""
_MOST_CHECKS: Final = 8
"""Checks that are not ok and have a place in the report."""
_LONGEST_MESSAGE: Final = 600
"""Characters of a check's message."""


class CheckReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A check of `/readyz` that is not ok, and for how many seconds."""

    name: str
    state: CheckState
    seconds: float = 0.0
    message: str = ""


class WatchReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How many kinds are watched, and the one that was silent for longest; `limit_seconds` is when it is stale."""

    kinds: int = 0
    oldest: str = ""
    oldest_seconds: float = 0.0
    limit_seconds: float = 0.0


class LeaderReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    The report of the replica `leader`, whose identity is that of the Lease.

    `work` is that of the last `scheduler.history.recent_work.MINUTES`. `pods` counts the queue by state. `saved` are
    the newest files with decisions that failed, in the leader's container. `defects` are unexpected exceptions and
    plans that broke a rule since the process began.
    """

    leader: str
    version: str
    time: datetime
    since: datetime
    checks: tuple[CheckReport, ...] = ()
    watches: WatchReport = WatchReport()
    work: WorkCounts = WorkCounts()
    pods: dict[str, int] = {}
    budget_seconds: float = 0.0
    defects: int = 0
    saved: tuple[str, ...] = ()


def decode_report(text: str) -> LeaderReport | None:
    """Read a report; None where there is none, or one of a version with other fields."""
    try:
        return msgspec.json.decode(text, type=LeaderReport)
    except msgspec.MsgspecError:
        return None


class ReportSources(NamedTuple):
    """Where a report comes from; `counts` counts the queue's pods, `saved` gives the newest saved decisions."""

    health: Health
    metrics: Metrics
    ages: WatchAges
    kinds: tuple[Kind, ...]
    recent: RecentWork
    counts: Callable[[], dict[PodState, int]]
    saved: Callable[[], Iterable[str]]
    budget_seconds: float


class LeaderReporter:
    """Makes reports about the replica that leads, from the event loop that schedules."""

    def __init__(
        self,
        identity: str,
        version: str,
        sources: ReportSources,
        say: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`say` has the next renewal of the Lease write a report."""
        self._identity: Final = identity
        self._version: Final = version
        self._sources: Final = sources
        self._say: Final = say
        self._now: Final = now

    async def run(self) -> None:
        """Report until cancelled."""
        since = self._now()
        while True:
            self._say(msgspec.json.encode(self.report(since)).decode())
            await asyncio.sleep(REPORT_SECONDS)

    def report(self, since: datetime) -> LeaderReport:
        """Make a report; the replica leads since a time."""
        sources = self._sources
        ages = {kind: sources.ages.age(kind) for kind in sources.kinds}
        oldest = max(ages, key=ages.__getitem__, default=None)
        checks = [each for each in sources.health.ready_checks if each.state is not CheckState.OK]
        return LeaderReport(
            leader=self._identity,
            version=self._version,
            time=self._now(),
            since=since,
            checks=tuple(
                CheckReport(each.name, each.state, round(each.seconds), cut(each.message, _LONGEST_MESSAGE))
                for each in checks[:_MOST_CHECKS]
            ),
            watches=WatchReport(
                len(ages),
                oldest.value if oldest else "",
                round(ages[oldest], 1) if oldest else 0.0,
                sources.ages.limit_seconds,
            ),
            work=sources.recent.total(),
            pods={state.value: count for state, count in sources.counts().items() if count},
            budget_seconds=sources.budget_seconds,
            defects=int(sources.metrics.defect_count()),
            saved=tuple(sources.saved()),
        )
