"""A Dovetail that is forked starts and ends as one that is started as a program."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.forked_dovetail import ForkedProcess, Preloader


@pytest.fixture(scope="module")
def preloader() -> Iterator[Preloader]:
    with Preloader() as made:
        yield made


def waiting(preloader: Preloader, folder: Path) -> ForkedProcess:
    """A scheduler that waits for an API server."""
    named = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {
        "current-context": "c",
        "clusters": [named],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
    arguments = ("run", f"--kubeconfig={folder / 'kubeconfig'}", "--bind-address=127.0.0.1:0")
    with (folder / "log").open("wb") as output:
        return preloader.fork(arguments, {**os.environ, "DOVETAIL_END_WITH_STDIN": "1"}, output.fileno())


@pytest.mark.parametrize(("words", "status"), [(["version", "--client"], 0), (["fit"], 2)])
def test_it_ends_with_the_status_of_the_command(
    preloader: Preloader, tmp_path: Path, words: list[str], status: int
) -> None:
    with (tmp_path / "log").open("wb") as output:
        process = preloader.fork(words, {**os.environ}, output.fileno())
    with process.stdin or output:
        assert process.wait(60) == status
    assert "dovetail" in (tmp_path / "log").read_text().lower()


def test_it_runs_until_it_is_killed(preloader: Preloader, tmp_path: Path) -> None:
    process = waiting(preloader, tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    assert process.poll() is None
    process.kill()
    assert process.wait(60) == -9
    assert process.poll() == -9
    assert process.stdin is not None
    process.stdin.close()


def test_it_ends_when_its_standard_input_is_closed(preloader: Preloader, tmp_path: Path) -> None:
    process = waiting(preloader, tmp_path)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)
