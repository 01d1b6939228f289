"""
The one way to the real API server on which things go wrong.

Beside a request, to its answer (the server has acted, and no client hears of it), or to the network: partitions in
one direction or both, connections that stay open though nothing comes any more, slow and cut answers, watches that end.
It speaks just enough HTTP/1.1 to tell requests and answers apart; every answer is the real server's, unless a fault
tells another one.
"""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from e2e.controlplane.access import Access, Connection

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

_JSON: Final = {"Content-Type": "application/json"}
_HOP_BY_HOP: Final = frozenset({"connection", "transfer-encoding", "keep-alive", "host", "content-length"})


class LossyProxy(ThreadingHTTPServer):
    """
    Forwards to an API server with the administrator's rights.

    `writes` holds what came to be written and `lost` what was lost, as `METHOD path`; `meet` gets every request with
    its body, before and after the server answers it. Each answer waits `delay_seconds`, and is cut after `cut_bytes`.
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
        self.meet: Meets = lambda _, __: None
        self.delay_seconds = 0.0
        self.cut_bytes: int | None = None
        self.streams: set[Connection] = set()
        self._requests_pass, self._answers_pass = threading.Event(), threading.Event()
        self._loses_answers = False
        self.recover()

    def partition(self, *, requests: bool = True, answers: bool = True) -> None:
        """Hold back requests, answers or both from now on; connections stay open, also new ones."""
        (self._requests_pass.clear if requests else self._requests_pass.set)()
        (self._answers_pass.clear if answers else self._answers_pass.set)()

    def lose_answers(self) -> None:
        """Close connections from now on where the server says something: it has acted, and no client hears of it."""
        self._loses_answers = True

    def end_watches(self) -> None:
        """End the watches that are open, as a server does."""
        for each in tuple(self.streams):
            # Its own thread ends it at any moment: then it has no socket, or one that is closed.
            if (open_socket := each.sock) is not None:
                with contextlib.suppress(OSError):
                    # That of an SSLSocket lets the next read return what is still encrypted.
                    socket.socket.shutdown(open_socket, socket.SHUT_RDWR)

    def recover(self) -> None:
        """Let through what is held back and everything from now on, at once and whole."""
        self._loses_answers, self.delay_seconds, self.cut_bytes = False, 0.0, None
        self._requests_pass.set()
        self._answers_pass.set()

    def wait_for_request(self) -> None:
        """Return when a request may reach the server."""
        self._requests_pass.wait()

    def wait_for_answer(self) -> None:
        """Return when a piece of an answer may be passed on; ConnectionAbortedError closes its connection."""
        self._answers_pass.wait()
        time.sleep(self.delay_seconds)
        if self._loses_answers:
            raise ConnectionAbortedError("answers are lost")

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
    """One connection of the client, and one of its own to the server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LossyProxy

    def setup(self) -> None:
        super().setup()
        self.upstream = self.server.access.connection(timeout_seconds=None)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def log_message(self, *_: object) -> None:
        pass

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP_BY_HOP}
        headers["Authorization"] = f"Bearer {self.server.access.token}"
        path, mark, query = self.path.partition("?")
        asked = Asked(self.command, path, query, body)
        if self.command != "GET":
            self.server.writes.append(f"{self.command} {path}")
        self.server.wait_for_request()
        if (told := self.server.meet(asked, False)) is not None:  # noqa: FBT003 - not answered yet
            self._answer(told.status, _JSON, [told.body], len(told.body))
            return
        way = self.server.before(self.command, path) + mark + query
        self.upstream.request(self.command, way, body or None, headers)
        answer = self.upstream.getresponse()
        if self.server.loses(self.command, path):
            answer.read()  # the server has acted, and said so
            self.server.lost.append(f"{self.command} {path}")
            self.close_connection = True
        elif (told := self.server.meet(asked, True)) is not None:  # noqa: FBT003 - answered
            answer.read()
            self._answer(told.status, _JSON, [told.body], len(told.body))
        else:
            self._pass_on(answer)

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        headers = {key: value for key, value in answer.getheaders() if key.lower() not in _HOP_BY_HOP}
        if "watch=" not in self.path:
            body = answer.read()
            self._answer(answer.status, headers, [body], len(body))
            return
        self.server.streams.add(self.upstream)
        try:
            self._answer(answer.status, headers, iter(lambda: _piece(answer), b""), None)
        finally:
            self.server.streams.discard(self.upstream)
            self.upstream.close()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _forward  # noqa: N815 - the names that the library calls

    def _answer(self, status: int, headers: dict[str, str], pieces: Iterable[bytes], length: int | None) -> None:
        """Pass an answer on, in pieces of a stream where it has no length."""
        self.server.wait_for_answer()
        self.send_response(status)
        size = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
        for key, value in (headers | size).items():
            self.send_header(key, value)
        self.end_headers()
        for piece in pieces:
            self.server.wait_for_answer()
            self._cut(piece)
            self.wfile.write(piece if length is not None else b"%x\r\n%s\r\n" % (len(piece), piece))
        if length is None:
            self.wfile.write(b"0\r\n\r\n")

    def _cut(self, piece: bytes) -> None:
        """Pass on the beginning of a piece only, and close the connection, where answers are cut."""
        most = self.server.cut_bytes
        if most is not None and len(piece) > most:
            self.wfile.write(piece[:most])
            raise ConnectionAbortedError("answers are cut")


def _piece(answer: http.client.HTTPResponse) -> bytes:
    """Read what there is of a stream; nothing where it ends, however it does."""
    try:
        return answer.read1(65536)
    except (OSError, http.client.HTTPException):
        return b""


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
            proxy.recover()
            proxy.end_watches()
            proxy.shutdown()
            thread.join()


class Storm:
    """
    Answers so many requests of one sort with a refusal, before the server hears of them or after it has acted.

    Every second one passes, so that work goes on amid the storm.
    """

    def __init__(self, status: int, count: int, wanted: Loses, *, is_done: bool = False) -> None:
        self._told = refusal(status)
        self._left = 2 * count
        self._wanted = wanted
        self._is_done = is_done
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether all of it has been."""
        return self._left <= 0

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        """Refuse a request; to be given to a proxy."""
        if is_done != self._is_done or not self._wanted(asked.method, asked.path):
            return None
        with self._lock:
            self._left -= 1
            return self._told if self._left >= 0 and self._left % 2 else None


class OldLists:
    """
    Answers the next listing of each collection with what it was when this was made: the answer of a cache that hangs.

    `told` is which were old.
    """

    def __init__(self, access: Access, collections: Sequence[str]) -> None:
        self._lists = {path: json.dumps(access.request("GET", path)).encode() for path in collections}
        self.told: set[str] = set()

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        """Tell an old list; to be given to a proxy."""
        if is_done or asked.method != "GET" or asked.path not in self._lists:
            return None
        if "watch=" in asked.query or asked.path in self.told:
            return None
        self.told.add(asked.path)
        return Told(200, self._lists[asked.path])


_REASONS: Final = {
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    504: "Timeout",
}


def refusal(code: int) -> Told:
    """Answer as an API server that refuses."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": _REASONS[code],
        "message": "a fault answers instead of the server",
        "code": code,
    }
    return Told(code, json.dumps(status).encode())


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

    What is sent again, as its client does after a time-out, is one more request, but for `once`: the first few paths
    pass as often as they come.

    What is held reaches the server when the dam opens, also where no client waits for the answer any more, and never
    where its requests are lost.
    """

    def __init__(self, passing: int, wanted: Loses, *, once: bool = False) -> None:
        self._left = passing
        self._wanted = wanted
        self._passed: set[str] | None = set() if once else None
        self._lock = threading.Lock()
        self._is_open = threading.Event()
        self._is_broken = False

    def before(self, method: str, path: str) -> str:
        """Hold such a request; to be given to `lossy`."""
        if self._wanted(method, path):
            with self._lock:
                is_again = self._passed is not None and path in self._passed
                self._left -= not is_again
                is_held = self._left < 0 and not is_again
                if self._passed is not None and not is_held:
                    self._passed.add(path)
            if is_held:
                self._is_open.wait(60)
                if self._is_broken:
                    raise ConnectionAbortedError(f"{method} {path} was lost on its way")
        return path

    @property
    def is_holding(self) -> bool:
        """Whether the first few are through, and more have come."""
        return self._left < 0

    def open(self) -> None:
        """Let everything through from now on."""
        self._is_open.set()

    def lose(self) -> None:
        """Lose what is held: its client is gone, and so is the request."""
        self._is_broken = True
        self._is_open.set()
