"""The record of an observation: bounded, readable after a crash, and refused where it is something else."""

import os
import stat
from pathlib import Path

import pytest

from scheduler.counterfactual.observation_record import (
    ObservationRecord,
    ObservationSample,
    ObservationStart,
    OutcomeLine,
    RecordError,
    RecordLine,
    RecordReader,
    older,
)
from tests.support.observations import outcome, sample, start


def lines_of(path: Path) -> list[object]:
    return list(RecordReader(path).lines())


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    waits = sample(101.0, still_open=(outcome("open"),))
    written: list[RecordLine] = [start(100.0), waits, OutcomeLine(of=outcome("p"))]
    with ObservationRecord(path) as record:
        for each in written:
            record.add(each)
        assert lines_of(path) == written  # while it is open, too


def test_a_record_goes_on_after_a_line_that_a_crash_has_cut(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    for at in (100.0, 200.0):
        with ObservationRecord(path) as record:
            record.add(start(at))
            record.add(sample(at + 1))
        path.write_bytes(path.read_bytes() + b'{"type":"sam')
    reader = RecordReader(path)
    assert [type(each) for each in reader.lines()] == [ObservationStart, ObservationSample] * 2
    assert reader.unreadable == 2


def test_a_record_is_bounded_and_keeps_the_newest_lines_and_the_start(tmp_path: Path) -> None:
    path, most = tmp_path / "record.jsonl", 8_000
    with ObservationRecord(path, most) as record:
        record.add(start(1.0))
        for at in range(2, 200):
            record.add(sample(float(at)))
    assert path.stat().st_size + older(path).stat().st_size <= most
    found = lines_of(path)
    samples = [each.at for each in found if isinstance(each, ObservationSample)]
    assert samples == list(map(float, range(200 - len(samples), 200)))
    assert {each for each in found if isinstance(each, ObservationStart)} == {start(1.0)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "is no record of an observation: name the file of `dovetail observe`", id="empty"),
        pytest.param("a: manifest\n", "is no record of an observation", id="something else"),
        pytest.param(
            '{"type":"start","apiVersion":"record.dovetail.dev/v9","kind":"Observation","started":1,"schedulers":[],'
            '"toleranceSeconds":1}\n',
            "is a record.dovetail.dev/v9 Observation, and this version reads record.dovetail.dev/v1alpha1 Observation",
            id="another version",
        ),
    ],
)
def test_a_file_that_is_no_record_is_named(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(text)
    with pytest.raises(RecordError) as raised:
        lines_of(path)
    assert str(raised.value).startswith(f"{path}: {expected}")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"type":"start","x":' * 2000, id="deep"),
        pytest.param(b'{"type":"start","version":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"type":"start","started":1e300,"schedulers":[],"toleranceSeconds":1}', id="no time"),
        pytest.param(
            b'{"type":"sample","at":1,"totals":{"pods":{"sooner":1' + b"0" * 300 + b'},"gangs":{}},'
            b'"real":{},"counterfactual":{}}',
            id="no count",
        ),
    ],
)
def test_a_line_that_no_report_could_show_is_unreadable(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    with ObservationRecord(path) as record:
        record.add(start(1.0))
    path.write_bytes(path.read_bytes() + line + b"\n")
    reader = RecordReader(path)
    assert list(reader.lines()) == [start(1.0)]
    assert reader.unreadable == 1


@pytest.mark.parametrize(("name", "said"), [("/", "Is a directory"), ("a" * 300, "File name too long")])
def test_a_path_that_can_be_no_record_is_named(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=f"cannot be read: {said}"):
        lines_of(tmp_path / name)


def test_a_record_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read: No such file or directory"):
        lines_of(tmp_path / "none.jsonl")


def test_a_disk_that_is_full_is_said(tmp_path: Path) -> None:
    (tmp_path / "record.jsonl").symlink_to("/dev/full")
    with (
        pytest.raises(RecordError, match="cannot be written: No space left on device"),
        ObservationRecord(tmp_path / "record.jsonl") as record,
    ):
        record.add(start(1.0))


@pytest.mark.parametrize("is_there", [False, True])
def test_only_the_owner_can_read_a_record_and_its_older_part(tmp_path: Path, *, is_there: bool) -> None:
    path, before = tmp_path / "record.jsonl", os.umask(0)
    try:
        if is_there:  # of an earlier version
            path.write_bytes(b"")
            older(path).write_bytes(b"")
        with ObservationRecord(path, 2_000) as record:
            modes = {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
            record.add(start(1.0))
            for at in range(2, 20):
                record.add(sample(float(at)))
    finally:
        os.umask(before)
    assert modes == {0o600}
    assert {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {
        path.name: 0o600,
        older(path).name: 0o600,
    }
