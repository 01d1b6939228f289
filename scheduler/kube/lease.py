"""
Leader election on a Lease (coordination.k8s.io/v1), as a state machine without I/O and clock.

Times are seconds of one monotonic clock, given by the caller. The clock of another holder is never used: its lease
counts as expired when we have observed it unchanged for its whole duration, as in client-go.
"""

import datetime as dt
from typing import Final

import msgspec

from scheduler.kube.decode.shared_fields import Wire
from scheduler.kube.encode import Json, micro_timestamp
from scheduler.kube.errors import DecodeError

RECORD: Final = "dovetail.dev/record"
"""Annotation with the record that a leader leaves for the next."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """
    Seconds: duration of a lease, time after a renewal in which the leader may start writes, and renewal period.

    The leader's last write has to end between deadline and duration. Raises ValueError where the order is wrong.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        """Check the order."""
        if not 0 < self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError(
                f"retryPeriodSeconds ({self.retry_period:g}) must be less than renewDeadlineSeconds "
                f"({self.renew_deadline:g}), and that less than leaseDurationSeconds ({self.lease_duration:g})"
            )

    @property
    def write_seconds(self) -> float:
        """The time that a write may take to end before the lease does."""
        return self.lease_duration - self.renew_deadline


class _Metadata(Wire, frozen=True):
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Spec(Wire, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Wire, frozen=True):
    """A Lease as far as the election needs it."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()

    @property
    def holder(self) -> str:
        """The holder's identity, "" where the lease is released or was never held."""
        return self.spec.holder_identity or ""

    @property
    def record(self) -> str:
        """The record of its last leader, "" where there is none."""
        return (self.metadata.annotations or {}).get(RECORD, "")


_lease = msgspec.json.Decoder(Lease)


def decode_lease(raw: bytes) -> Lease:
    """Decode a Lease. Raises DecodeError."""
    try:
        return _lease.decode(raw)
    except msgspec.MsgspecError as error:
        raise DecodeError("leases", "answer", "(whole object)", str(error)) from error


class Election:
    """
    The state of one candidate.

    `not_before` is when a leader may start to write: a lease that its last holder has not released is held for one
    whole duration first, so that late writes of that holder have ended. `record` is the text that leaders hand down: it
    is read when the lease is taken, and written with every renewal.
    """

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self.timing = timing
        self.is_leader = False
        self.record = ""
        self.not_before = float("inf")
        self._renewed_at = float("-inf")
        self._lease: Lease | None = None
        self._seen_at = float("-inf")

    # state

    def may_write(self, now: float) -> bool:
        """Whether a write may start now."""
        return self.is_leader and self.not_before <= now <= self._renewed_at + self.timing.renew_deadline

    def has_lost(self, now: float) -> bool:
        """Whether the last renewal is too long ago to continue, whatever the Lease says."""
        return not self.is_leader or now > self._renewed_at + self.timing.renew_deadline

    @property
    def exists(self) -> bool:
        """Whether the Lease exists."""
        return self._lease is not None

    @property
    def holder(self) -> str:
        """The holder when the lease was read last, for messages."""
        return "no process" if self._lease is None or not self._lease.holder else self._lease.holder

    def can_take(self, now: float) -> bool:
        """Whether the lease is free: missing, released, or observed unchanged for its duration."""
        lease = self._lease
        if lease is None or not lease.holder:
            return True
        duration = float(lease.spec.lease_duration_seconds or self.timing.lease_duration)
        return now >= self._seen_at + duration

    # transitions

    def seen(self, lease: Lease | None, now: float) -> None:
        """Note the answer of a read (None: no Lease) and its time."""
        if lease is None or self._lease is None or lease.spec != self._lease.spec:
            self._seen_at = now
        self._lease = lease
        if lease is None or lease.holder != self.identity:
            self.is_leader = False

    def took(self, lease: Lease, started: float) -> None:
        """Note that our acquisition, begun at `started`, was accepted."""
        before = self._lease.holder if self._lease is not None else ""
        self.not_before = started + (self.timing.lease_duration if before else 0.0)
        self.is_leader = True
        self.record = lease.record
        self.renewed(lease, started)

    def renewed(self, lease: Lease, started: float) -> None:
        """Note that our renewal, begun at `started`, was accepted: the deadline runs from before it was sent."""
        self._lease = lease
        self._seen_at = started
        self._renewed_at = started

    def resign(self) -> None:
        """Stop being leader; no write may start from now on."""
        self.is_leader = False

    # writes

    def creation(self, namespace: str, name: str, wall: dt.datetime) -> Json:
        """Return the body of a new Lease."""
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": self._holding(wall) | {"leaseTransitions": 0},
        }

    def taking(self, wall: dt.datetime) -> Json:
        """Return the merge patch that takes a free lease; refused with 409 where another candidate was faster."""
        lease = self._lease or Lease()
        return {
            "metadata": _guard(lease),
            "spec": self._holding(wall) | {"leaseTransitions": (lease.spec.lease_transitions or 0) + 1},
        }

    def renewal(self, wall: dt.datetime) -> Json:
        """Return the merge patch that renews the lease and writes the record."""
        metadata = _guard(self._lease or Lease())
        if self.record:
            metadata["annotations"] = {RECORD: self.record}
        return {"metadata": metadata, "spec": {"renewTime": micro_timestamp(wall)}}

    def release(self, wall: dt.datetime) -> Json:
        """Return the merge patch that releases the lease, so that the next leader need not wait."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_timestamp(wall)}
        return {"metadata": _guard(self._lease or Lease()), "spec": spec}

    def _holding(self, wall: dt.datetime) -> Json:
        stamp = micro_timestamp(wall)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.timing.lease_duration)),
            "acquireTime": stamp,
            "renewTime": stamp,
        }


def _guard(lease: Lease) -> Json:
    return {"uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version}
