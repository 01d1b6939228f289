"""
Fail points: one thing that goes wrong at the k-th write of a kind, between Dovetail and the real API server.

A `FailPoint` is what a `shell_proxy.LossyProxy` meets its requests with. What has to happen outside of the way itself
(a process is killed or stopped) happens while the request is held: `reached` is set then, and `go_on` ends it.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.support.shell_proxy import Asked, Told, refusal

REQUEST_SECONDS: Final = 1
"""What the scheduler is configured to wait for a write."""
_SILENCE_SECONDS: Final = REQUEST_SECONDS + 0.5
_HOLD_SECONDS: Final = 60.0

Kind = Callable[[Asked], bool]


def _claim_status(asked: Asked) -> bool:
    return asked.method == "PATCH" and "/resourceclaims/" in asked.path and asked.path.endswith("/status")


def _pod_status(word: bytes) -> Kind:
    return lambda asked: (
        asked.method == "PATCH" and "/pods/" in asked.path and asked.path.endswith("/status") and word in asked.body
    )


def _patch(resource: str, word: bytes = b"") -> Kind:
    return lambda asked: asked.method == "PATCH" and f"/{resource}/" in asked.path and word in asked.body


def _eviction(*, is_trial: bool) -> Kind:
    return lambda asked: (
        asked.method == "POST" and asked.path.endswith("/eviction") and (b'"dryRun"' in asked.body) == is_trial
    )


KINDS: Final[dict[str, Kind]] = {
    "finalizer": _patch("resourceclaims", b'"/metadata/finalizers'),
    "adoption": _patch("resourceclaims", b"dovetail.dev/adopted"),
    "allocation": lambda asked: _claim_status(asked) and b'"add","path":"/status/allocation"' in asked.body,
    "reservation": lambda asked: (
        _claim_status(asked)
        and b'"add","path":"/status/reservedFor' in asked.body
        and b"/status/allocation" not in asked.body
    ),
    "release": lambda asked: _claim_status(asked) and b'"remove"' in asked.body,
    "binding": lambda asked: asked.method == "POST" and asked.path.endswith("/binding"),
    "trial": _eviction(is_trial=True),
    "eviction": _eviction(is_trial=False),
    "nomination": lambda asked: _pod_status(b'"nominatedNodeName"')(asked) and b'"conditions"' not in asked.body,
    "disruption-target": _pod_status(b'"DisruptionTarget"'),
    "condition": _pod_status(b'"PodScheduled"'),
    "event": lambda asked: asked.method == "POST" and asked.path.endswith("/events"),
    "group": lambda asked: asked.method == "PATCH" and "/podgroups/" in asked.path,
    "lease": lambda asked: asked.method == "PATCH" and "/leases/" in asked.path,
    "volume": _patch("persistentvolumes", b'"claimRef"'),
    "selected-node": _patch("persistentvolumeclaims"),
    "special-claim": lambda asked: asked.method == "POST" and asked.path.endswith("/resourceclaims"),
    "announcement": _pod_status(b'/extendedResourceClaimStatus"'),
    "repair-plan": lambda asked: asked.method == "POST" and asked.path.endswith("/repairplans"),
    "hold": lambda asked: asked.method == "POST" and asked.path.endswith("/deviceholds"),
    "hold-note": lambda asked: (
        asked.method == "PATCH" and "/deviceholds/" in asked.path and asked.path.endswith("/status")
    ),
    "repair-note": lambda asked: (
        asked.method == "PATCH" and "/repairplans/" in asked.path and asked.path.endswith("/status")
    ),
    "hold-end": lambda asked: asked.method == "DELETE" and "/deviceholds/" in asked.path,
    "keep-node": _patch("nodes", b'"dovetail.dev/kept-node":"'),
    "let-node-go": _patch("nodes", b'"dovetail.dev/kept-node":null'),
    "check-active": _patch("admissionchecks"),
    "check-state": _patch("workloads", b'"admissionChecks"'),
    "park-mark": _patch("workloads", b'"dovetail.dev/parked":"'),
    "let-requeue": _patch("workloads", b'"/status/conditions/'),
    "activation": _patch("workloads", b'"active":true'),
    "quota-status": _patch("devicequotas"),
    "reserve-node": _pod_status(b'"dovetail.dev/node-reserved"'),
}
"""Every kind of write that Dovetail makes."""
GUARDED: Final = frozenset(
    {"finalizer", "adoption", "allocation", "reservation", "release", "binding", "announcement", "special-claim"}
)
"""
Those that do no harm however late they come. The server compares the version of the claim, or refuses because the pod
is bound. A claim that is made for a bound pod is deleted.
"""


class Moment(NamedTuple):
    """
    What goes wrong, and whether the server has acted by then.

    An answer of 0 closes the connection, after `seconds` of silence. `holds` says what happens to which process while
    the request is held; with `passes` it goes its way afterwards as though nothing had happened.
    """

    is_done: bool
    answer: int = 0
    seconds: float = 0.0
    holds: str = ""
    passes: bool = False


SHELL: Final = "kill the shell"
WORKER: Final = "kill the worker"
STOP: Final = "stop the leader"
LATE: Final = "stop the leader until all is settled"
END: Final = "tell the leader to end"
DELETE: Final = "delete the lease"
STEAL: Final = "write another holder into the lease"
OF_LEADERS: Final = frozenset({STOP, LATE, END, DELETE, STEAL})
"""What needs two replicas and their lease."""

MOMENTS: Final[dict[str, Moment]] = {
    "reset-before": Moment(is_done=False),
    "reset-after": Moment(is_done=True),
    "silent-before": Moment(is_done=False, seconds=_SILENCE_SECONDS),
    "silent-after": Moment(is_done=True, seconds=_SILENCE_SECONDS),
    "409-before": Moment(is_done=False, answer=409),
    "409-after": Moment(is_done=True, answer=409),
    "429-before": Moment(is_done=False, answer=429),
    "500-before": Moment(is_done=False, answer=500),
    "500-after": Moment(is_done=True, answer=500),
    "504-after": Moment(is_done=True, answer=504),
    "killed-before": Moment(is_done=False, holds=SHELL),
    "killed-after": Moment(is_done=True, holds=SHELL),
    "worker-killed": Moment(is_done=False, holds=WORKER, passes=True),
    "stopped-before": Moment(is_done=False, holds=STOP, passes=True),
    "stopped-after": Moment(is_done=True, holds=STOP, passes=True),
    "stopped-late": Moment(is_done=False, holds=LATE, passes=True),
    "ended-before": Moment(is_done=False, holds=END, passes=True),
    "ended-after": Moment(is_done=True, holds=END, passes=True),
    "lease-deleted": Moment(is_done=False, holds=DELETE, passes=True),
    "lease-stolen": Moment(is_done=True, holds=STEAL, passes=True),
}


class FailPoint:
    """Strikes once, at the k-th write of a kind after `arm`; `counts` says how many writes of each kind there were."""

    def __init__(self, kind: str, number: int, moment: Moment) -> None:
        self._is_kind = KINDS[kind]
        self._left = number
        self._moment = moment
        self._lock = threading.Lock()
        self._is_armed = False
        self._struck: set[int] = set()
        self._going_on = threading.Event()
        self.reached = threading.Event()

    def arm(self) -> None:
        """Count from now on."""
        self._is_armed = True

    def go_on(self) -> None:
        """Let what is held go its way, or be lost."""
        self._going_on.set()

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        """Let the request pass, or not; to be given to a proxy."""
        if not is_done:
            self._count(asked)
        if is_done != self._moment.is_done or id(asked) not in self._struck:
            return None
        self._struck.discard(id(asked))
        self.reached.set()
        if self._moment.holds:
            self._going_on.wait(_HOLD_SECONDS)
        if self._moment.passes:
            return None
        if self._moment.answer:
            return refusal(self._moment.answer)
        time.sleep(self._moment.seconds)
        raise ConnectionAbortedError(f"{asked.method} {asked.path}")

    def _count(self, asked: Asked) -> None:
        with self._lock:
            if self._is_armed and self._is_kind(asked):
                self._left -= 1
                if self._left == 0:
                    self._struck.add(id(asked))
