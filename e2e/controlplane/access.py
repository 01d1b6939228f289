"""Ways in: kubeconfig files, and raw JSON requests for the few synchronous things that need no client library."""

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

_SECONDS: Final = 30.0
"""How long a request waits for its answer."""


class RequestError(RuntimeError):
    """The API server refused a request; `status` is the HTTP status, the message what it says about it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


class Answer(NamedTuple):
    """What a server answers; `retry_after` is its Retry-After in seconds (0: none)."""

    status: int
    text: str
    retry_after: int


class Connection(http.client.HTTPSConnection):
    """
    An HTTPS connection that is closed whatever happens while it is made.

    The library's own connects first: where the server resets the connection before TLS is set up, as a server that is
    killed does, `SSLContext.wrap_socket` raises and leaves the socket open until it is collected.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext, timeout: float | None) -> None:
        super().__init__(host, port, context=tls, timeout=timeout)
        self._tls = tls

    def connect(self) -> None:
        """Connect and shake hands; `close` closes the socket also where this raises OSError."""
        self.sock = self._tls.wrap_socket(socket.socket(), server_hostname=self.host)
        self.sock.settimeout(self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.connect((self.host, self.port))

    def exchange(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        """Send a request and return its answer; after an error the next one connects anew."""
        try:
            self.request(method, path, body, headers)
            answer = self.getresponse()
            return Answer(answer.status, answer.read().decode(), int(answer.headers.get("Retry-After", "0")))
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Access:
    """A way to a server: its address, the authority that signed its certificate, a bearer token (or none)."""

    host: str
    port: int
    ca: Path
    token: str

    @property
    def server(self) -> str:
        """The address as a URL."""
        return f"https://{self.host}:{self.port}"

    def connection(self, timeout_seconds: float | None) -> Connection:
        """Give a connection that connects with its first request; None waits for ever."""
        return Connection(self.host, self.port, ssl.create_default_context(cafile=str(self.ca)), timeout_seconds)

    def request(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """Send one request and return the decoded answer. Raises RequestError, and OSError when no server answers."""
        headers = {"Content-Type": content}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if method == "GET":
            status, text, _ = self._read(path, headers)
        else:
            with contextlib.closing(self.connection(_SECONDS)) as connection:
                sent = None if body is None else json.dumps(body)
                status, text, _ = connection.exchange(method, path, sent, headers)
        try:
            decoded = json.loads(text)
        except ValueError:
            decoded = text  # /readyz and its kind answer in plain text
        if status >= http.client.BAD_REQUEST:
            message = decoded.get("message", text) if isinstance(decoded, dict) else text
            raise RequestError(status, message)
        return decoded

    def _read(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Read, again after each Retry-After of a server that is busy, as clients of the API do."""
        until = time.monotonic() + _SECONDS
        while True:
            answer = self._answer(path, headers)
            is_put_off = answer.status == http.client.TOO_MANY_REQUESTS and answer.retry_after > 0
            if not is_put_off or time.monotonic() + answer.retry_after > until:
                return answer
            time.sleep(answer.retry_after)

    def _answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Read over the thread's last connection: a handshake costs more than the answer."""
        connection = _last.connection_of(self)
        try:
            return connection.exchange("GET", path, None, headers)
        except (ConnectionError, http.client.HTTPException):  # the server has closed it, or is another one now
            return connection.exchange("GET", path, None, headers)

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig file that holds everything in itself, so that it can be copied anywhere."""
        authority = base64.b64encode(self.ca.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "dovetail",
            "clusters": [
                {"name": "dovetail", "cluster": {"server": self.server, "certificate-authority-data": authority}}
            ],
            "users": [{"name": "dovetail", "user": {"token": self.token}}],
            "contexts": [{"name": "dovetail", "context": {"cluster": "dovetail", "user": "dovetail"}}],
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path


class _LastConnection(threading.local):
    """
    The connection of the thread's last read.

    A write has a connection of its own. One that was used before may be closed already, and a write that is lost with
    it must not be repeated.
    """

    def __init__(self) -> None:
        self._access: Access | None = None
        self._connection: Connection | None = None

    def connection_of(self, access: Access) -> Connection:
        """Give the connection of a way in, a new one in place of another's."""
        if self._connection is None or self._access != access:
            if self._connection is not None:
                self._connection.close()
            self._access, self._connection = access, access.connection(_SECONDS)
        return self._connection


_last: Final = _LastConnection()
