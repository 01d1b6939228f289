"""Requests: over which connection, and to an API server that is killed meanwhile."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.access import Access, Connection, RequestError

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def resetting() -> Iterator[int]:
    """A port that accepts connections and resets them at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_reset_connection_leaves_no_socket_open(resetting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ResourceWarning would fail the test: a socket that is left open is collected with the exception."""
    connect = socket.socket.connect

    def connect_and_be_reset(self: socket.socket, address: Any) -> None:
        connect(self, address)
        time.sleep(0.1)

    monkeypatch.setattr(socket.socket, "connect", connect_and_be_reset)
    connection = Connection("127.0.0.1", resetting, ssl.create_default_context(), timeout=10)
    with contextlib.closing(connection), pytest.raises(ConnectionResetError):
        connection.request("GET", "/readyz")


class Plain(Connection):
    """The same without TLS."""

    def connect(self) -> None:
        self.sock = socket.create_connection((self.host, self.port), self.timeout)


class Server(ThreadingHTTPServer):
    """Answers everything, once it has put off `busy` requests; `closes` after each answer, without a word in it."""

    closes = False
    busy = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, int]] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append((self.command, self.client_address[1]))
        is_put_off = len(self.server.asked) <= self.server.busy
        self.send_response(429 if is_put_off else 200)
        self.send_header("Content-Length", "2")
        if is_put_off:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = self.server.closes

    do_GET = do_DELETE = answer  # noqa: N815 - the library's names

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def access(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Access:
    context = ssl.create_default_context()
    monkeypatch.setattr(Access, "connection", lambda self, _: Plain(self.host, self.port, context, timeout=10))
    return Access("127.0.0.1", server.server_port, tmp_path / "ca.crt", token="")


def test_reads_share_a_connection_and_a_write_has_its_own(access: Access, server: Server) -> None:
    for method in ("GET", "GET", "DELETE", "GET"):
        assert access.request(method, "/") == {}
    (_, first), *others = server.asked
    assert [method for method, port in others if port != first] == ["DELETE"]


def test_a_read_over_a_connection_that_the_server_has_closed_is_repeated(access: Access, server: Server) -> None:
    server.closes = True
    for _ in range(3):
        assert access.request("GET", "/") == {}
    assert len(set(server.asked)) == 3


def test_a_read_that_the_server_puts_off_is_sent_again_and_a_write_is_not(access: Access, server: Server) -> None:
    server.busy = 1
    assert access.request("GET", "/") == {}
    server.busy = 3
    with pytest.raises(RequestError) as refused:
        access.request("DELETE", "/")
    assert refused.value.status == 429
    assert [method for method, _ in server.asked] == ["GET", "GET", "DELETE"]


def test_a_server_that_is_gone_is_an_error(access: Access, server: Server) -> None:
    server.closes = True
    access.request("GET", "/")
    server.shutdown()
    server.server_close()
    with pytest.raises(ConnectionRefusedError):
        access.request("GET", "/")
