"""A decision's input as a file."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from scheduler.worker import recording
from solver.domain import Policy
from tests.support.builders import batch, claim, config, device, device_class, node, pod, resource_slice, snapshot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "s3cret"


def made(**changes: object) -> recording.Record:
    settings = (config(parameters=f'{{"token": "{SECRET}"}}'),)
    whole = recording.Record(
        cause="test",
        snapshot=snapshot(
            node("n1", cpu=4),
            resource_slice("n1", device("d", attributes={"list": ("a", "b")})),
            device_class("gpu", config=settings),
            claim("c", config=settings),
        ),
        batch=batch(pod("p", "c")),
        policy=Policy(),
        seconds=2.0,
        deterministic_seconds=4.0,
    )
    return msgspec.structs.replace(whole, **changes)


def test_a_record_is_read_as_it_was_saved(tmp_path: Path) -> None:
    path = recording.save(tmp_path / "records", made(), NOW)

    assert recording.read(path) == recording.without_parameters(made())


def test_the_file_says_which_version_it_is(tmp_path: Path) -> None:
    raw = msgspec.json.decode(recording.save(tmp_path, made(), NOW).read_bytes())

    assert (raw["apiVersion"], raw["kind"]) == ("record.dovetail.dev/v1alpha1", "Decision")


def test_opaque_parameters_are_left_out(tmp_path: Path) -> None:
    assert SECRET not in recording.save(tmp_path, made(), NOW).read_text()


def test_only_the_newest_records_are_kept(tmp_path: Path) -> None:
    paths = [recording.save(tmp_path, made(), NOW + timedelta(seconds=second)) for second in range(25)]

    assert sorted(tmp_path.iterdir()) == paths[5:]


def test_large_records_do_not_fill_the_disk(tmp_path: Path) -> None:
    first = recording.save(tmp_path, made())
    limits = recording.FolderLimits(20, int(first.stat().st_size * 2.5))
    paths = [first, *(recording.save(tmp_path, made(), limits=limits) for _ in range(4))]

    assert sorted(tmp_path.iterdir()) == sorted(paths[-2:])


def test_the_newest_record_stays_however_large_it_is(tmp_path: Path) -> None:
    limits = recording.FolderLimits(20, 1)
    recording.save(tmp_path, made(), limits=limits)
    newest = recording.save(tmp_path, made(), limits=limits)

    assert list(tmp_path.iterdir()) == [newest]


def test_the_owner_alone_can_read_what_is_saved(tmp_path: Path) -> None:
    path = recording.save(tmp_path / "records", made(), NOW)

    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "saved.json"
    target.write_text("precious")
    path.symlink_to(target)
    recording.write(path, b"new")

    assert (target.read_text(), path.read_text(), path.is_symlink()) == ("precious", "new", False)


def test_a_file_that_all_users_could_read_is_replaced_by_one_that_they_cannot(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_text("old")
    path.chmod(0o644)
    recording.write(path, b"new")

    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    recording.write(pipe, b"new")

    assert os.read(reader, 10) == b"new"
    os.close(reader)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        recording.write(tmp_path / "folder", b"new")

    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_record_that_nests_too_deep_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)

    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        recording.read(path)
