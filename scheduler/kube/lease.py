"""
Leader election on a Lease (coordination.k8s.io/v1) as a state machine without I/O and without a clock.

Times are seconds of one monotonic clock, told by the caller. Another holder's own clock is never trusted: its lease
counts as expired when it has not changed for its whole duration *while we were looking*.
"""

import datetime as dt
from typing import Final

import msgspec

from scheduler.kube.decode.shared_fields import Wire
from scheduler.kube.encode import Json, micro_timestamp
from scheduler.kube.errors import DecodeError

RECORD: Final = "dovetail.dev/record"
"""The annotation in which a leader leaves what the next one has to know."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """
    Seconds: how long a lease lasts, how long after a renewal the leader may still write, and how often it renews.

    What lies between duration and deadline is the time that the leader's last write has to end. Raises ValueError
    where the order does not leave room.
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
        """How long a write may take so that it ends before the lease does."""
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
        """Who holds it; empty: it was released, or nobody has ever held it."""
        return self.spec.holder_identity or ""

    @property
    def record(self) -> str:
        """What its last leader left; empty: nothing."""
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
    One candidate's view.

    `not_before` is when a leader may start to write: a lease that was taken from someone who did not release it is
    held for one whole duration first, so that no late write of theirs meets ours. `record` is what leaders hand down in
    the lease: it is taken with it, and every renewal writes it.
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

    # what is so

    def may_write(self, now: float) -> bool:
        """Whether a write may start now."""
        return self.is_leader and self.not_before <= now <= self._renewed_at + self.timing.renew_deadline

    def has_lost(self, now: float) -> bool:
        """Whether the last renewal is too long ago to go on, however the lease stands."""
        return not self.is_leader or now > self._renewed_at + self.timing.renew_deadline

    @property
    def exists(self) -> bool:
        """Whether there is a Lease to take."""
        return self._lease is not None

    @property
    def holder(self) -> str:
        """Who held the lease when it was seen last, for messages."""
        return "nobody" if self._lease is None or not self._lease.holder else self._lease.holder

    def can_take(self, now: float) -> bool:
        """Whether the lease that was seen last is free: none, released, or expired before our eyes."""
        lease = self._lease
        if lease is None or not lease.holder:
            return True
        duration = float(lease.spec.lease_duration_seconds or self.timing.lease_duration)
        return now >= self._seen_at + duration

    # what happened

    def seen(self, lease: Lease | None, now: float) -> None:
        """Note what a read gave (None: there is no Lease) at the time that the answer came."""
        if lease is None or self._lease is None or lease.spec != self._lease.spec:
            self._seen_at = now
        self._lease = lease
        if lease is None or lease.holder != self.identity:
            self.is_leader = False

    def took(self, lease: Lease, started: float) -> None:
        """Note that our taking of the lease, begun at `started`, was accepted."""
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
        """Write nothing from now on."""
        self.is_leader = False

    # what to write

    def creation(self, namespace: str, name: str, wall: dt.datetime) -> Json:
        """Body of the Lease to create where there is none."""
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": self._holding(wall) | {"leaseTransitions": 0},
        }

    def taking(self, wall: dt.datetime) -> Json:
        """Merge patch that makes the free lease ours; refused with 409 if someone else was faster."""
        lease = self._lease or Lease()
        return {
            "metadata": _guard(lease),
            "spec": self._holding(wall) | {"leaseTransitions": (lease.spec.lease_transitions or 0) + 1},
        }

    def renewal(self, wall: dt.datetime) -> Json:
        """Merge patch that keeps the lease, and our record in it."""
        metadata = _guard(self._lease or Lease())
        if self.record:
            metadata["annotations"] = {RECORD: self.record}
        return {"metadata": metadata, "spec": {"renewTime": micro_timestamp(wall)}}

    def release(self, wall: dt.datetime) -> Json:
        """Merge patch that gives it up, so that the next one need not wait."""
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
