"""
The Lease of a scheduler: who holds it, whether that one is alive, and what it says of itself.

`told_reservations` reads from it which nodes are reserved.
"""

import asyncio
import datetime as dt
from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client
from scheduler.kube.errors import Forbidden, KubeError, NotFound
from scheduler.kube.leader_election.lease import Lease, decode_lease
from scheduler.settings import LeaderElection, default
from scheduler.status.leader_report import LeaderReport, decode_report
from solver.domain import NodeReservation, Pod

_RENEWED_SECONDS: Final = 5.0
"""How long a Lease that looks old is watched for a renewal: a leader renews it every two seconds."""
_LOOK_SECONDS: Final = 0.5


class SeenLease(NamedTuple):
    """
    A Lease; `is_renewed` says that its holder is alive.

    `age_seconds` is how long ago it was renewed by this machine's clock, infinite where that is not known.
    """

    holder: str
    is_renewed: bool
    age_seconds: float
    is_drained: bool
    report: LeaderReport | None

    @property
    def leader(self) -> str:
        """The name of the pod, or of the machine, that has the Lease; "" where none has it."""
        return self.holder.partition("_")[0] if self.is_renewed else ""

    @property
    def current_report(self) -> LeaderReport | None:
        """The report of the replica that leads now; None where it has made none yet."""
        is_current = self.is_renewed and self.report is not None and self.report.leader == self.holder
        return self.report if is_current else None


async def read_lease(client: Client, namespace: str, name: str) -> SeenLease | None:
    """
    Read a Lease, None where there is none. Raise `KubeError`.

    One that looks old is watched for a renewal, as the clocks of two machines differ.
    """
    found = await _lease_now(client, namespace, name)
    if found is None:
        return None
    age, duration = _age(found), found.spec.lease_duration_seconds or 0
    is_renewed = bool(found.holder) and 0 <= age <= duration
    ends = asyncio.get_running_loop().time() + _RENEWED_SECONDS
    while found.holder and not is_renewed and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(_LOOK_SECONDS)
        later = await _lease_now(client, namespace, name)
        is_renewed = later is not None and bool(later.holder) and later.spec.renew_time != found.spec.renew_time
        found = later if later is not None and is_renewed else found
    return _seen(found, is_renewed=is_renewed)


async def look_at_lease(client: Client, namespace: str, name: str) -> SeenLease | None:
    """
    Read a Lease once, None where there is none. Raise `KubeError`.

    Unlike `read_lease` it takes no time where the leader is dead. Where this machine's clock is ahead by more than the
    duration of the Lease, a living holder looks dead.
    """
    found = await _lease_now(client, namespace, name)
    if found is None:
        return None
    is_renewed = bool(found.holder) and _age(found) <= (found.spec.lease_duration_seconds or 0)
    return _seen(found, is_renewed=is_renewed)


async def look_at_default_lease(client: Client, namespace: str) -> SeenLease | None:
    """Look at the Lease of a scheduler with the default configuration; None also where it cannot be read."""
    election = default().leader_election
    try:
        return await look_at_lease(client, election.lease_namespace or namespace, election.lease_name)
    except KubeError:
        return None


class ToldReservations(NamedTuple):
    """What the leader says of reserved nodes; `problem` says which of them are not known, "" where all are."""

    report: LeaderReport | None = None
    problem: str = ""
    is_read: bool = True

    def of(self, pods: Iterable[Pod]) -> tuple[NodeReservation, ...]:
        """Return the reservations for pods that wait."""
        return self.report.reservations_for(pods) if self.report is not None else ()

    @property
    def device_nodes(self) -> frozenset[str] | None:
        """The nodes whose devices are reserved; None where the Lease cannot be read."""
        if not self.is_read:
            return None
        reserved = self.report.reservations if self.report is not None else ()
        return frozenset(name for each in reserved if each.takes_devices for name in each.nodes)


def reservations_in(lease: SeenLease | None) -> ToldReservations:
    """Return what a Lease says of reserved nodes: what a leader said that is gone is over."""
    report = lease.current_report if lease is not None else None
    if report is None or not report.more_reserved:
        return ToldReservations(report)
    more = f"{report.more_reserved} more nodes are reserved for starving pods, and the leader names none of them"
    return ToldReservations(report, more)


def told_reservations(access: ClusterAccess, namespace: str, election: LeaderElection) -> ToldReservations:
    """Read which nodes are reserved by the leader of a scheduler in a namespace; no error of the API ends this."""
    namespace, name = election.lease_namespace or namespace, election.lease_name

    async def look() -> SeenLease | None:
        async with access.connect() as client:
            return await look_at_lease(client, namespace, name)

    try:
        return reservations_in(wait_for(look()))
    except Forbidden:
        why = f"you may not read Lease {namespace}/{name} (the ClusterRole dovetail-viewer names Lease dovetail)"
    except KubeError as error:
        why = f"Lease {namespace}/{name} cannot be read: {error}"
    problem = f"the answer leaves out that nodes may be reserved for starving pods: {why}"
    return ToldReservations(problem=problem, is_read=False)


def _seen(lease: Lease, *, is_renewed: bool) -> SeenLease:
    return SeenLease(lease.holder, is_renewed, _age(lease), lease.is_drained, decode_report(lease.report))


async def _lease_now(client: Client, namespace: str, name: str) -> Lease | None:
    try:
        return decode_lease(await client.request("GET", paths.leases(namespace, name)))
    except NotFound:
        return None


def _age(lease: Lease) -> float:
    """Return the seconds since a Lease was renewed, by this machine's clock."""
    try:
        renewed = dt.datetime.fromisoformat(lease.spec.renew_time or "")
    except ValueError:
        return float("inf")
    return (dt.datetime.now(dt.UTC) - renewed.astimezone(dt.UTC)).total_seconds()
