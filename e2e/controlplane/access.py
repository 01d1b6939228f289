"""Ways in: kubeconfig files, and raw JSON requests for the few synchronous things that need no client library."""

import base64
import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class RequestError(RuntimeError):
    """The API server refused a request; `status` is the HTTP status, the message what it says about it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


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
        connection = self.connection(timeout_seconds=30)
        headers = {"Content-Type": content}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        try:
            decoded = json.loads(text)
        except ValueError:
            decoded = text  # /readyz and its kind answer in plain text
        if answer.status >= http.client.BAD_REQUEST:
            message = decoded.get("message", text) if isinstance(decoded, dict) else text
            raise RequestError(answer.status, message)
        return decoded

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
