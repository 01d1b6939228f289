"""
Whatever an argument holds, a command answers or says what is wrong: nothing is a defect.

Each run tries other texts; SEED repeats them.
"""

import contextlib
import http.server
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.cli.exit_status import ExitStatus
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]

TRIED = 12
"""Texts for each command."""
TEXTS = (
    *("", "-", "--", "x", "a/b", "a/b/c", "//x", "é", "\udcff", "a\udcff/b", "\x1b[31m", "a" * 300, "a/" * 3000, "-1"),
    *("0", "1e400", "nan", "9" * 5000, "9d" * 2000, "a in (", ", ," * 500, "http://[", "http://127.0.0.1:99999", "::1"),
    *("https://127.0.0.1:x", "%", "~x/y", "/dev/null", " ", "\n", "max", "\u0661\u0662", "class,", "[", "a?b#c"),
)
COMMANDS = (
    "queue --selector=TEXT",
    "queue --namespace=TEXT",
    "queue --server=TEXT",
    "queue --service=TEXT",
    "queue --service-account=TEXT",
    "queue --context=TEXT",
    "queue --kubeconfig=TEXT",
    "explain -- TEXT",
    "explain pod -- TEXT",
    "explain pod/p --snapshot=TEXT",
    "explain pod/p --config=TEXT",
    "explain pod/p --dovetail-namespace=TEXT",
    "fit --filename=TEXT",
    "fit --filename=FILE --count=TEXT --cluster=FILE",
    "fit --filename=FILE --cluster=TEXT",
    "simulate --filename=TEXT",
    "simulate --filename=FILE --config=TEXT",
    "simulate --filename=FILE --scheduler-name=TEXT",
    "simulate --filename=FILE --save=TEXT",
    "devices --filename=FILE --selector=TEXT",
    "devices --filename=FILE -- TEXT",
    "free --filename=FILE --by=TEXT",
    "free --filename=FILE --group-label=TEXT",
    "map --filename=TEXT",
    "history --since=TEXT",
    "history --limit=TEXT",
    "history -- TEXT",
    "usage --by=TEXT",
    "repair plan --filename=FILE --for=TEXT",
    "report --record=TEXT",
    "observe --scheduler-name=x --record=TEXT",
    "observe --scheduler-name=x --interval=TEXT",
    "drain --timeout=TEXT",
    "replay -- TEXT",
    "config --check=TEXT",
    "completion -- TEXT",
    "-- TEXT",
)


class _Nothing(http.server.BaseHTTPRequestHandler):
    """Knows no object."""

    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # a command that has its answer closes the others
            super().handle()

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - the name of the library

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the library
        """Log nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Nothing) as serving:
        serving.daemon_threads = True
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving.server_port
        serving.shutdown()


@pytest.mark.parametrize("command", COMMANDS)
def test_an_argument_is_no_defect(
    command: str, server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], users: [{name: u, user: {token: "
        f"abc}}}}], clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{server}'}}}}]}}"
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.chdir(tmp_path)
    file = m.write_yaml(tmp_path / "file.yaml", m.node(), m.slice_of(), m.device_class(), m.template(), m.pod("p"))
    for text in random.sample(TEXTS, TRIED):
        words = (word.replace("FILE", str(file)).replace("TEXT", text) for word in command.split())
        status = m.run(*words)
        said = capsys.readouterr().err
        assert status in {each.value for each in ExitStatus if each is not ExitStatus.DEFECT}, (text, said)
        assert status != ExitStatus.WRONG or said.startswith("dovetail"), (text, said)
