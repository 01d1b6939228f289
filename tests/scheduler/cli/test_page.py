"""`dovetail page`: arguments, and a process that serves until it is stopped."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.scheduler.cli.test_map import WAITING
from tests.support import manifests as m
from tests.support.event_reader import EventReader, changed

Capture = pytest.CaptureFixture[str]


@contextmanager
def running(*words: object) -> Iterator[str]:
    command = [sys.executable, "-m", "scheduler", "page", *map(str, words), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


async def test_the_page_follows_its_source(tmp_path: Path) -> None:
    path = m.write_yaml(tmp_path / "cluster.yaml", m.node(), m.slice_of(), m.device_class(), WAITING)
    with running("-f", path) as url:
        async with aiohttp.ClientSession() as session, session.get(f"{url}v1alpha1/map?watch=true") as response:
            events = EventReader(response)
            first = (await events.until("whole")).data
            assert (first["source"], first["total"]["total"]) == ("manifests cluster.yaml", 2)
            assert [each["name"] for each in first["queue"]] == ["late"]
            m.write_yaml(path, m.node(), m.slice_of(), m.device_class())
            seen = first
            while seen["queue"]:
                found = await events.until("whole", "change")
                seen = found.data if found.name == "whole" else changed(seen, found.data)
            path.write_text("kind: [", encoding="utf-8")
            while (state := await events.until("state")).data["failure"] is None:
                pass
            assert "cluster.yaml" in state.data["failure"]["message"]
            async with session.get(f"{url}v1alpha1/map") as last:
                assert (await last.json())["queue"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--listen", "0.0.0.0:8765"), "is open to other machines"),
        (("--listen", ":8765"), "is open to other machines"),
        (("--tls-cert-file", "cert.pem"), "give both --tls-cert-file and --tls-key-file"),
        (("--listen", "here"), "--listen: 'here' is no address"),
        (("--snapshot", "a.json", "-f", "b.yaml"), "give --snapshot or -f, not both"),
        (("--kubeconfig", "missing"), "dovetail: page: "),
    ],
    ids=" ".join,
)
def test_wrong_arguments(words: tuple[str, ...], message: str, capsys: Capture) -> None:
    assert m.run("page", *words) == 2
    written = capsys.readouterr()
    assert message in written.err
    assert (written.out, len(written.err.splitlines())) == ("", 1)


def test_a_port_in_use_is_said(tmp_path: Path, capsys: Capture) -> None:
    path = m.write_yaml(tmp_path / "cluster.yaml", m.node())
    with running("-f", path) as url:
        assert m.run("page", "-f", path, "--listen", url.removeprefix("http://").rstrip("/")) == 2
    assert "check the port" in capsys.readouterr().err
