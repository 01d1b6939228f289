"""
The errors of requests to the API server.

    KubeError
    ├── ConfigurationError      kubeconfig or service account cannot be used; names the field
    ├── Unreachable             not sent, or a read: nothing has happened
    │   └── WatchSilent         a watch that sent nothing for too long
    ├── AnswerLost              a write was sent and got no answer: it may have acted
    ├── LeadershipLost          the lease is lost
    ├── DecodeError             an object cannot be decoded; names the object and the field
    ├── VersionWentBack         a resourceVersion is lower than one before
    └── ApiError                the server's answer: status, reason, message
        ├── BadRequest          400
        ├── Unauthorized        401
        ├── Forbidden           403
        ├── NotFound            404
        ├── Conflict            409: the resourceVersion, uid or state is not the expected one
        ├── Gone                410: the resourceVersion is too old, list again
        ├── Invalid             422
        ├── TooManyRequests     429
        └── ServerError         5xx: like AnswerLost, a write may have acted
"""

# ruff: noqa: N818 - these are the words of the contract; the package says what they are

import time
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from scheduler.unreadable import LONGEST_TEXT, cut


class KubeError(Exception):
    """Base of all errors here; `may_have_acted` says whether a live read must decide before a write is retried."""

    may_have_acted = False


class ConfigurationError(KubeError):
    """The configuration of the connection is wrong; the message names the file, the field and what to write."""


class Unreachable(KubeError):
    """The request did not reach the API server, or was a read whose answer did not come."""


class AnswerTooLarge(KubeError):
    """An answer has more bytes than were asked for; the rest of it was not read."""


class WatchSilent(Unreachable):
    """A watch sent neither an event nor a bookmark for too long: its connection may be dead."""


class VersionWentBack(KubeError):
    """A resourceVersion is lower than one before: etcd was restored from a backup, or the answer is an old one."""


class AnswerLost(KubeError):
    """A write was sent and no complete answer came: only a live read shows whether it acted."""

    may_have_acted = True


class LeadershipLost(KubeError):
    """Another process holds the lease, or it could not be renewed in time: no further write."""


class DecodeError(KubeError):
    """
    An API object cannot be decoded: `kind` and `key` name it, `field` is the path in it.

    `uid` is the object's, "" where it is not known.
    """

    def __init__(self, kind: str, key: str, field: str, message: str, uid: str = "") -> None:
        super().__init__(f"{kind} {key}: {field}: {message}")
        self.uid = uid
        self.kind = kind
        self.key = key
        self.field = field
        self.message = message


class ApiError(KubeError):
    """
    An answer of the API server that is no success.

    `status` is the HTTP status; `reason` (`Conflict`, `Expired`) and `message` are those of the Status body;
    `retry_after_seconds` is the Retry-After (0: none), at most `MOST_RETRY_AFTER_SECONDS`.
    """

    def __init__(
        self, status: int, reason: str = "", message: str = "", *, request: str = "", retry_after_seconds: float = 0.0
    ) -> None:
        said = ": ".join(part for part in (request, f"{status} {reason}".rstrip(), message) if part)
        super().__init__(cut(said))  # the server may quote an object of any size
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401: the credentials are not accepted, even after a renewal."""


class Forbidden(ApiError):
    """403: a right is missing in RBAC, admission refuses, or a quota is exceeded."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: the object has changed, exists already, or is in a state that does not allow it."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old."""


class Invalid(ApiError):
    """422: the object breaks a rule of the API."""


class TooManyRequests(ApiError):
    """429: wait for `retry_after_seconds`, then try again."""


class ServerError(ApiError):
    """5xx: the server or a proxy gave up; a write may have acted."""

    may_have_acted = True


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_FIRST_SERVER_ERROR = 500
_DEFAULT_RETRY_AFTER_SECONDS = 1.0
MOST_RETRY_AFTER_SECONDS: Final = 30.0
"""The longest wait that a server or proxy can impose: the API server asks for 1 to 32 s, and a 429 closes all slots."""


class _Details(msgspec.Struct):
    retry_after: int | float | None = msgspec.field(name="retryAfterSeconds", default=None)


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


_status_decoder = msgspec.json.Decoder(_Status)


def from_answer(status: int, body: bytes, *, request: str = "", retry_after: str = "") -> ApiError:
    """
    Make the error of an HTTP answer from its `metav1.Status` body, or from the text where it is none.

    `retry_after` is the header; without a valid one the body's `details.retryAfterSeconds` counts.
    """
    try:
        said = _status_decoder.decode(body)
    except msgspec.MsgspecError:
        said = _Status(message=body[:LONGEST_TEXT].decode(errors="replace").strip())
    in_body = said.details.retry_after if said.details else None
    seconds = _bounded(_header_seconds(retry_after) or in_body or 0)
    kind = _BY_STATUS.get(status, ServerError if status >= _FIRST_SERVER_ERROR else ApiError)
    if kind is TooManyRequests and not seconds:
        seconds = _DEFAULT_RETRY_AFTER_SECONDS
    return kind(status, said.reason, said.message, request=request, retry_after_seconds=seconds)


def _header_seconds(text: str) -> float:
    """Return the seconds of a Retry-After, digits or a date (RFC 9110, 10.2.3); 0 where it is neither."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _bounded(seconds: float) -> float:
    """Return 0 for what is negative or no number."""
    return float(min(seconds, MOST_RETRY_AFTER_SECONDS)) if seconds > 0 else 0.0


def from_status(body: msgspec.Raw | bytes) -> ApiError:
    """Make the error of a Status object in a watch (an event of type ERROR)."""
    try:
        code = _status_decoder.decode(body).code
    except msgspec.MsgspecError:
        code = 0
    return from_answer(code or _FIRST_SERVER_ERROR, bytes(body), request="watch")
