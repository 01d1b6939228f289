"""Requests to an API server that is killed meanwhile."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.access import Connection

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
