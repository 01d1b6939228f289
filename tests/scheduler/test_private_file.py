"""Files that only their owner can read: replaced and appended to, whatever was there before."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import private_file


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    """A umask that takes no right away: modes come from the code alone."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "saved.json"
    target.write_text("precious")
    path.symlink_to(target)
    private_file.replace(path, b"new")

    assert (target.read_text(), path.read_text(), path.is_symlink()) == ("precious", "new", False)


def test_a_file_that_all_users_could_read_is_replaced_by_one_that_they_cannot(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_text("old")
    path.chmod(0o644)
    private_file.replace(path, b"new")

    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    private_file.replace(pipe, b"new")

    assert os.read(reader, 10) == b"new"
    os.close(reader)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        private_file.replace(tmp_path / "folder", b"new")

    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_what_is_appended_to_is_made_for_the_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fchmod", pytest.fail)  # between making and changing a file, others could open it
    path = tmp_path / "record.jsonl"
    for line in (b"one\n", b"two\n"):
        with private_file.append(path) as file:
            file.write(line)

    assert (path.read_text(), _mode(path)) == ("one\ntwo\n", 0o600)


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o666, 0o600), (0o700, 0o700)])
def test_other_users_lose_their_rights_before_anything_is_appended(tmp_path: Path, before: int, after: int) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text("old\n")
    path.chmod(before)
    with private_file.append(path) as file:
        assert _mode(path) == after
        file.write(b"new\n")

    assert path.read_text() == "old\nnew\n"


def test_a_file_of_another_user_that_stays_readable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text("theirs\n")
    path.chmod(0o666)

    def refuse(_: int, __: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)  # as for every user but its owner and root
    with pytest.raises(PermissionError, match="name a file of your own"):
        private_file.append(path)


def test_a_pipe_keeps_its_rights(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o666)
    with pytest.raises(OSError, match="seek"):  # no file to append to, and no reason to change it
        private_file.append(pipe)

    assert _mode(pipe) == 0o666
