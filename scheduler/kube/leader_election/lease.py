"""
Leader election on a Lease (coordination.k8s.io/v1), as a state machine without I/O and clock.

Times are seconds of one monotonic clock, given by the caller. The clock of another holder is never used: its lease
counts as expired when we have observed it unchanged for its whole duration, as in client-go.
"""

import datetime as dt
import math
from typing import Final

import msgspec

from scheduler.kube.decode.shared_fields import Wire
from scheduler.kube.encode import Json, micro_timestamp
from scheduler.kube.errors import DecodeError
from scheduler.settings.schema import LAST_WRITES_SECONDS, LONGEST_LEASE_SECONDS

RECORD: Final = "dovetail.dev/record"
"""Annotation with the record that a leader leaves for the next."""
RECORD_VERSION: Final = "dovetail.dev/record-version"
"""Annotation with the version of the record's format; without it the record has the first one."""
FORMAT: Final = "1"
"""The version of the record's format that is read and written here."""
DRAINED: Final = "dovetail.dev/drained"
"""Annotation that `dovetail pause` sets: since when no replica may schedule."""
REPORT: Final = "dovetail.dev/leader-report"
"""Annotation in which the leader says how it does; `dovetail status` reads it."""
_MOST_TRANSITIONS: Final = 2**31 - 1
"""spec.leaseTransitions is an int32: one more is refused, and the lease could not be taken any more."""
_RELEASED_SECONDS: Final = 1
"""spec.leaseDurationSeconds of a lease that its holder has released, as client-go writes it."""


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
        if not 0 < self.retry_period < self.renew_deadline <= self.lease_duration - LAST_WRITES_SECONDS:
            raise ValueError(
                f"retryPeriodSeconds ({self.retry_period:g}) must be less than renewDeadlineSeconds "
                f"({self.renew_deadline:g}), and that at most leaseDurationSeconds ({self.lease_duration:g}) "
                f"- {LAST_WRITES_SECONDS:g}"
            )


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
    def is_released(self) -> bool:
        """Whether its last holder has released it; a holder that another client has removed may still write."""
        return not self.holder and self.spec.lease_duration_seconds == _RELEASED_SECONDS

    @property
    def was_held(self) -> bool:
        """Whether it has, or had, a holder."""
        return bool(self.holder or self.spec.renew_time)

    @property
    def record(self) -> str:
        """The record of its last leader, "" where there is none."""
        return self._annotation(RECORD)

    @property
    def record_version(self) -> str:
        """The version of the record's format."""
        return self._annotation(RECORD_VERSION) or FORMAT

    @property
    def is_drained(self) -> bool:
        """Whether no replica may schedule."""
        return bool(self._annotation(DRAINED))

    @property
    def report(self) -> str:
        """What its last leader said of itself, "" where it said nothing."""
        return self._annotation(REPORT)

    def _annotation(self, name: str) -> str:
        return (self.metadata.annotations or {}).get(name, "")


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

    A lease whose holder has not released it is taken when it has been observed unchanged for its whole duration. By
    then the API server has ended every write that it received from that holder in time (`write_seconds`);
    `is_clean` says that there can be none anyway, because the holder has released the lease after its last write.
    `record` is the text that leaders hand down: it is read when the lease is taken, and written with every renewal.
    `report` says how the leader does: it is written with every renewal as well, and no leader reads it.
    """

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self.timing = timing
        self.is_leader = False
        self.is_clean = False
        self.record = ""
        self.record_version = FORMAT
        self.report = ""
        self._renewed_at = float("-inf")
        self._lease: Lease | None = None
        self._free_at = float("-inf")
        """When the lease is free: the last holder that was seen may have kept it until then."""

    # state

    def may_write(self, now: float) -> bool:
        """Whether a write may start now."""
        return self.is_leader and now <= self._renewed_at + self.timing.renew_deadline

    def write_seconds(self, now: float) -> float:
        """
        Return how long a write may take that starts now, 0 where none may start: half of the time until the lease ends.

        We wait so long for the answer. The API server gives the request up when it has had it for so long. So every
        request that it receives while we wait ends before the lease does.
        """
        if not self.may_write(now):
            return 0.0
        return (self._renewed_at + self.timing.lease_duration - now) / 2

    def has_lost(self, now: float) -> bool:
        """Whether the last renewal is too long ago to continue, whatever the Lease says."""
        return not self.is_leader or now > self._renewed_at + self.timing.renew_deadline

    def seconds_left(self, now: float) -> float:
        """Return the seconds until it is too late for a renewal."""
        return max(0.0, self._renewed_at + self.timing.renew_deadline - now)

    @property
    def exists(self) -> bool:
        """Whether the Lease exists."""
        return self._lease is not None

    @property
    def is_held(self) -> bool:
        """Whether the lease had a holder when it was read last."""
        return self._lease is not None and bool(self._lease.holder)

    @property
    def holder(self) -> str:
        """The holder when the lease was read last, for messages."""
        return self._lease.holder if self._lease is not None and self.is_held else "no process"

    @property
    def is_drained(self) -> bool:
        """Whether the lease says that no replica may schedule."""
        return self._lease is not None and self._lease.is_drained

    def can_take(self, now: float) -> bool:
        """Whether the lease is free: new, released, or its holder has not renewed it for its duration."""
        return now >= self._free_at

    def seconds_until_free(self, now: float) -> float:
        """Return the seconds until the lease is free, unless its holder renews it."""
        return max(0.0, self._free_at - now)

    # transitions

    def seen(self, lease: Lease | None, now: float, *, was_led: bool = False) -> None:
        """
        Note the answer of a read (None: no Lease) and its time.

        A client that deletes the Lease or clears its holder stops no write of that holder, which may have renewed it
        just before: the lease is free when its duration has passed since we noticed. So a Lease that is there without a
        holder, and was not released, may have had one just before we saw it first. So may one that is not there when we
        look first, where there was a candidate before us, or the cluster shows a leader's work (`was_led`).
        """
        before, self._lease = self._lease, lease
        if lease is None:
            if before is not None or (was_led and self._free_at == float("-inf")):
                self._free_at = now + self.timing.lease_duration
        elif lease.is_released:
            self._free_at = float("-inf")
        elif lease.was_held if before is None else lease.spec != before.spec:
            self._free_at = now + self._duration(lease)
        if lease is None or lease.holder != self.identity:
            self.is_leader = False

    def _duration(self, lease: Lease) -> float:
        """Return how long its holder may keep a lease; no holder of ours writes more than the longest one."""
        seconds = lease.spec.lease_duration_seconds or 0
        return float(min(seconds, LONGEST_LEASE_SECONDS)) if seconds > 0 else self.timing.lease_duration

    def took(self, lease: Lease, started: float) -> None:
        """Note that our acquisition, begun at `started`, was accepted."""
        self.is_clean = self._free_at == float("-inf")
        self.is_leader = True
        self.record_version = lease.record_version
        self.record = lease.record if self.record_version == FORMAT else ""
        self.renewed(lease, started)

    def renewed(self, lease: Lease, started: float) -> None:
        """Note that our renewal, begun at `started`, was accepted: the deadline runs from before it was sent."""
        self._lease = lease
        self._free_at = started + self.timing.lease_duration
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
        transitions = min(max(lease.spec.lease_transitions or 0, 0), _MOST_TRANSITIONS - 1) + 1
        return {"metadata": _guard(lease), "spec": self._holding(wall) | {"leaseTransitions": transitions}}

    def renewal(self, wall: dt.datetime) -> Json:
        """Return the merge patch that renews the lease and writes record and report."""
        metadata = _guard(self._lease or Lease())
        annotations = {RECORD: self.record, RECORD_VERSION: FORMAT} if self.record else {}
        if self.report:
            annotations[REPORT] = self.report
        if annotations:
            metadata["annotations"] = annotations
        return {"metadata": metadata, "spec": {"renewTime": micro_timestamp(wall)}}

    def release(self, wall: dt.datetime) -> Json:
        """Return the merge patch that releases the lease, so that the next leader need not wait."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": _RELEASED_SECONDS, "renewTime": micro_timestamp(wall)}
        return {"metadata": _guard(self._lease or Lease()), "spec": spec}

    def drain(self, wall: dt.datetime, *, is_drained: bool) -> Json:
        """Return the merge patch that says whether replicas may schedule."""
        moment = micro_timestamp(wall) if is_drained else None
        return {"metadata": _guard(self._lease or Lease()) | {"annotations": {DRAINED: moment}}}

    def _holding(self, wall: dt.datetime) -> Json:
        stamp = micro_timestamp(wall)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.timing.lease_duration),
            "acquireTime": stamp,
            "renewTime": stamp,
        }


def _guard(lease: Lease) -> Json:
    return {"uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version}
