"""
A way to the API server on which things happen: beside a request, or to its answer (the server has acted, and nobody
hears of it).

It speaks just enough HTTP/1.1 to tell requests and answers apart; every answer is the real server's.
"""

import contextlib
import http.client
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from e2e.controlplane.access import Access

Loses = Callable[[str, str], bool]
"""Method and path of a request that the server has answered → whether the answer is lost. It may do things, too."""
Before = Callable[[str, str], str]
"""Method and path of a request that comes → the path that is asked for instead. It may do things, too."""


class Asked(NamedTuple):
    """A request in full."""

    method: str
    path: str
    query: str
    body: bytes


class Told(NamedTuple):
    """What is answered instead of the server."""

    status: int
    body: bytes


Meets = Callable[[Asked, bool], Told | None]
"""
A request, and whether the server has answered it yet → what is told instead of its answer, if anything.

Asked twice about each. ConnectionAbortedError closes the connection without an answer.
"""

_HOP_BY_HOP: Final = frozenset({"connection", "transfer-encoding", "keep-alive", "host"})


class LossyProxy(ThreadingHTTPServer):
    """
    Forwards to an API server with the administrator's rights.

    `writes` holds what came to be written and `lost` what was lost, as `METHOD path`; `listen` gets every piece of a
    watch just after it was passed on, and `meet` every request with its body, before and after the server answers it.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, access: Access, loses: Loses, before: Before) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.access = access
        self.loses = loses
        self.before = before
        self.lost: list[str] = []
        self.writes: list[str] = []
        self.listen: Callable[[bytes], object] = lambda _: None
        self.meet: Meets = lambda _, __: None
        self.tls = ssl.create_default_context(cafile=str(access.ca))

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections end here all the time: that is what it is for."""

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads through the proxy."""
        server = {"server": f"http://127.0.0.1:{self.server_address[1]}"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lossy", "cluster": server}],
            "users": [{"name": "lossy", "user": {}}],
            "contexts": [{"name": "lossy", "context": {"cluster": "lossy", "user": "lossy"}}],
            "current-context": "lossy",
        }
        path.write_text(yaml.safe_dump(document))
        return path


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LossyProxy

    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def do_PATCH(self) -> None:
        self._forward()

    def do_PUT(self) -> None:
        self._forward()

    def do_DELETE(self) -> None:
        self._forward()

    def log_message(self, *_: object) -> None:
        pass

    def _forward(self) -> None:
        access = self.server.access
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP_BY_HOP}
        headers["Authorization"] = f"Bearer {access.token}"
        upstream = http.client.HTTPSConnection(access.host, access.port, context=self.server.tls)
        with contextlib.closing(upstream):
            path, mark, query = self.path.partition("?")
            if self.command != "GET":
                self.server.writes.append(f"{self.command} {path}")
            asked = Asked(self.command, path, query, body)
            if (told := self.server.meet(asked, False)) is not None:  # noqa: FBT003 - not answered yet
                self._tell(told)
                return
            upstream.request(self.command, self.server.before(self.command, path) + mark + query, body or None, headers)
            answer = upstream.getresponse()
            if self.server.loses(self.command, path):
                answer.read()  # the server has acted, and said so
                self.server.lost.append(f"{self.command} {path}")
                self.close_connection = True
                return
            if (told := self.server.meet(asked, True)) is not None:  # noqa: FBT003 - answered
                answer.read()
                self._tell(told)
                return
            self._pass_on(answer)

    def _tell(self, told: Told) -> None:
        self.send_response(told.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told.body)))
        self.end_headers()
        self.wfile.write(told.body)

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for key, value in answer.getheaders():
            if key.lower() not in _HOP_BY_HOP | {"content-length"}:
                self.send_header(key, value)
        length = answer.getheader("Content-Length")
        if length is not None:
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(answer.read())
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while chunk := answer.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.server.listen(chunk)
        self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def lossy(
    access: Access, loses: Loses = lambda _, __: False, before: Before = lambda _, path: path
) -> Iterator[LossyProxy]:
    """Run a proxy for the block."""
    with LossyProxy(access, loses, before) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


def is_allocation(method: str, path: str) -> bool:
    """Whether a request allocates, reserves or releases a claim."""
    return method == "PATCH" and "/resourceclaims/" in path and path.endswith("/status")


def is_binding(method: str, path: str) -> bool:
    """Whether a request binds a pod."""
    return method == "POST" and path.endswith("/binding")


def the_first(wanted: Loses) -> Loses:
    """Be true for the first request that is like this, and for no other."""
    lock, done = threading.Lock(), threading.Event()

    def loses(method: str, path: str) -> bool:
        if not wanted(method, path):
            return False
        with lock:
            is_first = not done.is_set()
            done.set()
            return is_first

    return loses


class Dam:
    """
    Holds requests of one sort back behind the first few, until it is opened: what happens then happens amid a batch.

    What is held reaches the server when the dam opens, also where nobody waits for the answer any more, and never where
    its requests are lost.
    """

    def __init__(self, passing: int, wanted: Loses) -> None:
        self._left = passing
        self._wanted = wanted
        self._lock = threading.Lock()
        self._is_open = threading.Event()
        self._is_broken = False

    def before(self, method: str, path: str) -> str:
        """Hold such a request; to be given to `lossy`."""
        if self._wanted(method, path):
            with self._lock:
                self._left -= 1
                is_held = self._left < 0
            if is_held:
                self._is_open.wait(60)
                if self._is_broken:
                    raise ConnectionAbortedError(f"{method} {path} was lost on its way")
        return path

    def open(self) -> None:
        """Let everything through from now on."""
        self._is_open.set()

    def lose(self) -> None:
        """Lose what is held: who has sent it is gone, and so is the request."""
        self._is_broken = True
        self._is_open.set()
