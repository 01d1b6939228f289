"""A request to the API server as bytes, the way that it goes, and the error of one whose answer did not come."""

import math
import os
import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Self
from urllib.parse import quote, urlencode

from scheduler.kube.credentials import ClientConfig
from scheduler.kube.errors import AnswerLost, AnswerTooLarge, KubeError, Unreachable, WatchSilent
from scheduler.kube.http.connection_pool import Origin
from scheduler.kube.http.http_connection import TooLargeError
from scheduler.kube.leader_election.boot_clock import boot_time

JSON: Final = "application/json"
READ: Final = "GET"
_USER_AGENT: Final = "dovetail-scheduler"
_PATH_CHARACTERS: Final = "/:@!$&'()*+,;=~%"
_ARGUMENT: Final = "surrogateescape"
"""A name on the command line may hold bytes that are not UTF-8: the server gets them, and knows no such name."""


class HttpCall(NamedTuple):
    """A request to send, once or twice, and the seconds that it may take; those of a stream until its head is there."""

    method: str
    path: str
    query: Mapping[str, str]
    seconds: float
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    headers: Mapping[str, str] = MappingProxyType({})
    ends: float = math.inf
    """When it must have been sent, by `boot_time`; a read may be sent at any time."""
    is_stream: bool = False
    most_bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def require_time(self) -> None:
        """Raise Unreachable where it must not be sent any more."""
        if boot_time() > self.ends:
            raise Unreachable(f"{self}: its time was over before it was sent: the machine or the process was suspended")

    def failed(self, error: OSError) -> KubeError:
        """Return the error of a call whose answer did not come."""
        if self.is_stream and isinstance(error, TimeoutError):
            return WatchSilent(f"{self}: nothing came for {self.seconds:g} s")
        if isinstance(error, TooLargeError):
            return AnswerTooLarge(f"{self}: the answer is too large: {error}")
        lost = Unreachable if self.method == READ else AnswerLost
        return lost(f"{self}: no answer: {because(error)}")


class HttpRoute(NamedTuple):
    """Where requests go with some credentials, and the headers that all of them have."""

    access: ClientConfig
    origin: Origin
    headers: str

    @classmethod
    def of(cls, access: ClientConfig, origin: Origin) -> Self:
        """Write the headers. Compressing costs both sides more than it saves inside a cluster."""
        headers = {"Host": origin.name, "User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
        if access.authorization:
            headers["Authorization"] = access.authorization
        return cls(access, origin, _lines(headers | origin.proxy_headers))

    def request(self, call: HttpCall) -> bytes:
        """Write a request."""
        question = f"?{urlencode(call.query, errors=_ARGUMENT)}" if call.query else ""
        target = f"{self.origin.base}{quote(call.path, safe=_PATH_CHARACTERS, errors=_ARGUMENT)}{question}"
        head = f"{call.method} {target} HTTP/1.1\r\n{self.headers}Accept: {call.accept}\r\n{_lines(call.headers)}"
        if call.body is not None:
            head += f"Content-Type: {call.content_type}\r\n"
        if call.method != READ:
            head += f"Content-Length: {len(call.body or b'')}\r\n"
        return f"{head}\r\n".encode() + (call.body or b"")


def _lines(headers: Mapping[str, str]) -> str:
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()])


def because(error: OSError) -> str:
    """Return the cause as text; a timeout has none of its own."""
    if isinstance(error, ssl.SSLError):
        return str(error)
    if isinstance(error, socket.gaierror):
        return str(error.strerror).lower()
    if error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or ("timed out" if isinstance(error, TimeoutError) else type(error).__name__)
