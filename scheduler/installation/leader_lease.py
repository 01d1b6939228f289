"""The Lease of a scheduler: who holds it, whether that one is alive, and what it says of itself."""

import asyncio
import datetime as dt
from typing import Final, NamedTuple

from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.errors import NotFound
from scheduler.kube.leader_election.lease import Lease, decode_lease
from scheduler.status.leader_report import LeaderReport, decode_report

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
    return SeenLease(found.holder, is_renewed, _age(found), found.is_drained, decode_report(found.report))


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
