"""Which Go builds a module: one that is as new as the module's go.mod asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane import build


@pytest.fixture
def on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only Go of the machine, of version 1.26.8; no uv."""
    folder = tmp_path / "bin"
    folder.mkdir()
    go = folder / "go"
    go.write_text("#!/bin/sh\necho go version go1.26.8 linux/amd64\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    build.go_command.cache_clear()
    build.go_version.cache_clear()
    yield go
    build.go_command.cache_clear()
    build.go_version.cache_clear()


def module(folder: Path, version: str) -> Path:
    (folder / "go.mod").write_text(f"module example.com/m\n\ngo {version}\n")
    return folder


@pytest.mark.parametrize("version", ["1.26.0", "1.26.8", "1.9.12", "1.20"])
def test_a_go_that_is_new_enough_builds_it(on_the_path: Path, tmp_path: Path, version: str) -> None:
    assert build.go_command_of(module(tmp_path, version)) == (str(on_the_path),)


@pytest.mark.usefixtures("on_the_path")
def test_an_older_one_is_not_taken_and_the_message_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(build.BuildError, match=r"no Go 1\.26\.9 or newer"):
        build.go_command_of(module(tmp_path, "1.26.9"))
