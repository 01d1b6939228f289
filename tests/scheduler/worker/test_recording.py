"""A decision's input as a file."""

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


def test_a_record_that_nests_too_deep_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)

    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        recording.read(path)
