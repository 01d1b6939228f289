"""What the Tab key asks an API server: how many requests, for what, and how they are sent."""

import argparse
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.cli.sources import object_names
from scheduler.kube import quick_names
from tests.support import manifests as m

PODS = "/api/v1/namespaces/default/pods"
GANGS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
COUNT = 3000


def table(*names: str) -> m.Manifest:
    columns = [{"name": "Age", "format": ""}, {"name": "Name", "format": "name"}]
    return {"kind": "Table", "columnDefinitions": columns, "rows": [{"cells": ["1d", each]} for each in names]}


class NameServer:
    """
    Answers with tables and metadata; `asked` has the path, the query and the accepted form of each request.

    By HTTP/1.1 a connection stays open and the content comes in chunks, by HTTP/1.0 it ends with each answer.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], str]] = []
        self.answers: dict[str, Any] = {}
        self.connections = 0
        self.version = "HTTP/1.1"

    def answer(self, target: str, accept: str) -> bytes | None:
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.asked.append((parts.path, query, accept.partition("as=")[2].partition(";")[0]))
        found = self.answers.get(query.get("labelSelector", parts.path))
        return None if found is None else json.dumps(found).encode()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    made = NameServer()

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            made.connections += 1
            self.protocol_version = made.version
            super().setup()

        def do_GET(self) -> None:
            body = made.answer(self.path, self.headers["Accept"])
            self.send_response(404 if body is None else 200)
            if body is None or self.protocol_version == "HTTP/1.0":
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (body[:7], body[7:]):
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{listening.server_port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
        monkeypatch.setenv("KUBECONFIG", str(m.write_yaml(tmp_path / "config", config)))
        monkeypatch.setenv(quick_names.LIMIT, "60")
        yield made
        listening.shutdown()
        thread.join()


def completed(typed: str) -> list[str]:
    action = argparse.Action([], "target")
    object_names.complete_objects(action, ["pod", "podgroup", "node"])
    return list(action.completer(prefix=typed, parsed_args=argparse.Namespace()))  # type: ignore[attr-defined]


def test_names_are_one_request_for_a_table_of_all_from_the_cache(server: NameServer) -> None:
    server.answers[PODS] = table(*(f"p-{number:04}" for number in range(COUNT)))
    assert completed("pod/p-29") == [f"pod/p-29{number:02}" for number in range(100)], "however many are before them"
    assert server.asked == [(PODS, {"resourceVersion": "0", "includeObject": "None"}, "Table")]
    assert len(completed("p-")) == 500, "a shell gets no more"


@pytest.mark.parametrize(("version", "connections"), [("HTTP/1.1", 1), ("HTTP/1.0", 3)])
def test_gangs_are_groups_and_what_pods_name_by_one_connection(
    version: str, connections: int, server: NameServer
) -> None:
    server.version = version
    for label, name in (("dovetail.dev/gang", "train-a"), ("scheduling.x-k8s.io/pod-group", "train-b")):
        server.answers[label] = {"items": [{"metadata": {"labels": {label: name}}}] * 2}
    assert completed("podgroup/train") == ["podgroup/train-a", "podgroup/train-b"]
    assert [(path, accept) for path, _, accept in server.asked] == [
        (GANGS, "Table"),
        *[(PODS, "PartialObjectMetadataList")] * 2,
    ]
    assert server.connections == connections
    server.answers[GANGS] = table("train-c")
    assert completed("podgroup/train")[-1] == "podgroup/train-c"


@pytest.mark.parametrize("refused", ["dovetail.dev/gang", GANGS])
def test_what_one_request_is_refused_the_others_still_answer(refused: str, server: NameServer) -> None:
    server.answers["dovetail.dev/gang"] = {"items": [{"metadata": {"labels": {"dovetail.dev/gang": "train-a"}}}]}
    server.answers["scheduling.x-k8s.io/pod-group"] = {"items": []}
    server.answers[GANGS] = table("train-c")
    del server.answers[refused]
    assert completed("podgroup/train") == ["podgroup/train-c" if refused != GANGS else "podgroup/train-a"]


def test_all_requests_of_a_completion_share_their_time(server: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(quick_names.LIMIT, "0")
    assert completed("podgroup/train") == []
    monkeypatch.setenv(quick_names.LIMIT, "soon")
    assert completed("pod/train") == []
    assert server.asked == []


@pytest.mark.parametrize(
    "answer", [{}, {"columnDefinitions": [], "rows": []}, {**table("a"), "rows": [{"cells": []}]}, []], ids=repr
)
def test_an_answer_that_is_no_table_completes_nothing(server: NameServer, answer: Any) -> None:
    server.answers[PODS] = answer
    assert completed("pod/a") == []


def test_a_request_waits_for_no_acknowledgement(server: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Nagle's algorithm it would wait for that of the last message of TLS, which the server puts off by 40 ms."""
    server.answers[PODS] = table("a")
    noted: list[int] = []
    send = socket.socket.sendall

    def sending(self: socket.socket, content: bytes) -> None:
        noted.append(self.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        send(self, content)

    monkeypatch.setattr(socket.socket, "sendall", sending, raising=False)
    assert completed("pod/a") == ["pod/a"]
    assert noted[0]


def test_authorities_of_the_system_are_read_only_without_those_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: Any) -> ssl.SSLContext:
        raise AssertionError("it takes 0.1 s")

    given: list[str] = []
    monkeypatch.setattr(ssl, "create_default_context", slow)
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda _, cadata: given.append(cadata))
    (tmp_path / "ca.crt").write_text("authority")
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "ca.crt"}
    user = {"token": "t"}
    access = quick_names.QuickAccess(tmp_path, cluster, user, "default", 0.0)
    with contextlib.ExitStack() as ends:
        context = quick_names.tls_context(access, ends)
    assert given == ["authority"]
    assert context.verify_mode is ssl.CERT_REQUIRED
