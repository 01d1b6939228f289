"""
How the leader does, in an annotation of its Lease: what `dovetail status` shows and only the scheduler knows.

The leader writes it with each renewal. So it needs no port, no right but to read the Lease, and is still there when no
replica runs any more. It names no pod: reservations have uids.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from solver.domain import NodeReservation, Pod

REPORT_SECONDS: Final = 5.0
"""How often the leader makes a new report."""
_MOST_CHECKS: Final = 8
"""Checks that are not ok and have a place in the report."""
_LONGEST_MESSAGE: Final = 600
"""Characters of a check's message."""
_MOST_NODES: Final = 300
_MOST_PODS: Final = 600
"""Nodes and pods of reservations that have a place in the report: at most some 45 KiB, written with each renewal."""


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


class ReservationReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A `NodeReservation`, with the uids of its pods in place of a name."""

    uids: tuple[str, ...]
    nodes: tuple[str, ...]
    priority: int = 0
    requests: tuple[tuple[str, int], ...] = ()
    takes_devices: bool = True


class LeaderReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    The report of the replica `leader`, whose identity is that of the Lease.

    `work` is that of the last `scheduler.history.recent_work.MINUTES`. `pods` counts the queue by state. `saved` are
    the newest files with decisions that failed, in the leader's container. `defects` are unexpected exceptions and
    plans that broke a rule since the process began. `configuration` is `scheduler.settings.digest` of its
    settings. `reservations` are the nodes that are reserved for starving pods, and `more_reserved` the number of such
    nodes without a place here, for `more_pods` pods.
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
    configuration: str = ""
    reservations: tuple[ReservationReport, ...] = ()
    more_reserved: int = 0
    more_pods: int = 0

    def reservations_for(self, pods: Iterable[Pod]) -> tuple[NodeReservation, ...]:
        """Return the reservations whose pods are all among those that wait; the others are over, or begin just now."""
        waiting = {pod.uid: pod for pod in pods if not pod.node_name}
        return tuple(
            NodeReservation(
                pod=waiting[each.uids[0]].id,
                uids=each.uids,
                priority=each.priority,
                nodes=each.nodes,
                requests=each.requests,
                takes_devices=each.takes_devices,
            )
            for each in self.reservations
            if each.uids and waiting.keys() >= set(each.uids)
        )


def decode_report(text: str) -> LeaderReport | None:
    """Read a report; None where there is none, or one of a version with other fields."""
    try:
        return msgspec.json.decode(text, type=LeaderReport)
    except msgspec.MsgspecError:
        return None


class ReportSources(NamedTuple):
    """
    Where a report comes from.

    `counts` counts the queue's pods, `saved` gives the newest saved decisions, `reservations` the reserved nodes.
    """

    health: Health
    metrics: Metrics
    ages: WatchAges
    kinds: tuple[Kind, ...]
    recent: RecentWork
    counts: Callable[[], dict[PodState, int]]
    saved: Callable[[], Iterable[str]]
    reservations: Callable[[], Sequence[NodeReservation]]
    budget_seconds: float
    configuration: str


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
        reserved = sources.reservations()
        shown = tuple(_shown(reserved))
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
            configuration=sources.configuration,
            reservations=shown,
            more_reserved=sum(len(each.nodes) for each in reserved) - sum(len(each.nodes) for each in shown),
            more_pods=sum(len(each.uids) for each in reserved) - sum(len(each.uids) for each in shown),
        )


def _shown(reserved: Iterable[NodeReservation]) -> Iterator[ReservationReport]:
    """Yield the reservations that have room, those of the pods that have waited longest first."""
    nodes = pods = 0
    for each in reserved:
        if nodes + len(each.nodes) > _MOST_NODES or pods + len(each.uids) > _MOST_PODS:
            continue
        nodes, pods = nodes + len(each.nodes), pods + len(each.uids)
        yield ReservationReport(
            uids=each.uids,
            nodes=each.nodes,
            priority=each.priority,
            requests=each.requests,
            takes_devices=each.takes_devices,
        )
