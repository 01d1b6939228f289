"""An API server that has Leases and nothing else, in a thread: for commands, which have an event loop of their own."""

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import yaml

from scheduler.kube.access import ClusterAccess
from scheduler.kube.leader_election import lease
from scheduler.status.leader_report import LeaderReport

HOLDER = "dovetail-0_uid"


def lease_of(report: LeaderReport | None, *, age: timedelta = timedelta(), duration: int = 15) -> dict[str, Any]:
    """Return a Lease that was renewed some time ago, with what its holder says."""
    text = msgspec.json.encode(report).decode() if report is not None else ""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "dovetail", "resourceVersion": "1", "annotations": {lease.REPORT: text}},
        "spec": {
            "holderIdentity": HOLDER,
            "leaseDurationSeconds": duration,
            "renewTime": (datetime.now(UTC) - age).isoformat(),
        },
    }


def reporting(**fields: Any) -> LeaderReport:
    """Return what the holder says."""
    now = datetime.now(UTC)
    return LeaderReport(leader=HOLDER, version="1", time=now, since=now, **fields)


class LeaseServer:
    """Answers with `leases`, by namespace and name: a body, or the status of a refusal. `asked` are the names."""

    def __init__(self, folder: Path) -> None:
        self.leases: dict[str, dict[str, Any] | int] = {}
        self.asked: list[str] = []
        self.kubeconfig = folder / "kubeconfig"

    @property
    def access(self) -> ClusterAccess:
        """How commands reach it."""
        return ClusterAccess(self.kubeconfig)

    @contextlib.contextmanager
    def running(self) -> Iterator["LeaseServer"]:
        """Serve."""
        leases = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, body = leases.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            self._write_kubeconfig(server.server_port)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            thread.start()
            yield self
            server.shutdown()
            thread.join()

    def answer(self, path: str) -> tuple[int, bytes]:
        """Answer a request for a Lease."""
        _, _, name = path.partition("/namespaces/")
        name = name.replace("/leases/", "/")
        self.asked.append(name)
        found = self.leases.get(name, 404)
        if isinstance(found, int):
            return found, json.dumps({"kind": "Status", "code": found, "message": f"status {found}"}).encode()
        return 200, json.dumps(found).encode()

    def _write_kubeconfig(self, port: int) -> None:
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
