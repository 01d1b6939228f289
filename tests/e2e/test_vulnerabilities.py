"""Known vulnerabilities of locked packages, by a database on disk."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from e2e import vulnerabilities
from tests.support import house

LOCKED = """\
[[package]]
name = "aiohttp"
version = "3.9.1"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "dovetail-scheduler"
version = "3.9.1"
source = { editable = "." }
"""


def database(folder: Path, *affected: dict[str, Any], **fields: Any) -> Path:
    path = folder / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        record = {"id": "PYSEC-1", "summary": "reads too much", "affected": list(affected), **fields}
        archive.writestr("PYSEC-1.json", json.dumps(record))
    return path


def about(name: str = "aiohttp", ecosystem: str = "PyPI", **fields: Any) -> dict[str, Any]:
    return {"package": {"name": name, "ecosystem": ecosystem}, **fields}


def within(*events: dict[str, str]) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": list(events)}]}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "uv.lock"
    path.write_text(LOCKED)
    return path


@pytest.mark.parametrize(
    ("affected", "status"),
    [
        pytest.param(about(versions=["3.9.1"]), 1, id="listed"),
        pytest.param(about(versions=["3.9.0"]), 0, id="another version listed"),
        pytest.param(about(**within({"introduced": "0"}, {"fixed": "3.9.2"})), 1, id="before the fix"),
        pytest.param(about(**within({"introduced": "0"}, {"fixed": "3.9.1"})), 0, id="the fix"),
        pytest.param(about(**within({"introduced": "3.10"})), 0, id="before it came"),
        pytest.param(about(**within({"introduced": "3"}, {"last_affected": "3.9.1"})), 1, id="the last affected"),
        pytest.param(about(**within({"fixed": "3.8"}, {"introduced": "0"}, {"introduced": "3.9"})), 1, id="again"),
        pytest.param(about(**within({"introduced": "what"})), 1, id="an unreadable bound"),
        pytest.param(about("AioHTTP", versions=["3.9.1"]), 1, id="another spelling"),
        pytest.param(about("dovetail_scheduler", versions=["3.9.1"]), 0, id="not from a registry"),
    ],
)
def test_versions_are_found_where_they_are_affected(
    affected: dict[str, Any], status: int, lock: Path, tmp_path: Path
) -> None:
    assert vulnerabilities.main(str(database(tmp_path, affected)), lock) == status


def test_what_is_found_says_where_it_is_fixed(lock: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vulnerabilities.main(str(database(tmp_path, about(**within({"introduced": "0"}, {"fixed": "4.0"})))), lock)
    assert capsys.readouterr().out.splitlines() == [
        "aiohttp 3.9.1: PYSEC-1 (fixed in 4.0): reads too much",
        "1 known vulnerabilities in 1 locked packages",
    ]


def test_what_was_withdrawn_does_not_count(lock: Path, tmp_path: Path) -> None:
    path = database(tmp_path, about(versions=["3.9.1"]), withdrawn="2026-01-01T00:00:00Z")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.json", json.dumps({"id": "PYSEC-2", "affected": [about("other")]}))
    assert vulnerabilities.main(str(path), lock) == 0


@pytest.mark.parametrize("content", [None, b"no zip"])
def test_a_database_that_cannot_be_read_is_no_clean_bill(content: bytes | None, lock: Path, tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    if content is not None:
        path.write_bytes(content)
    assert vulnerabilities.main(str(path), lock) == 2


def test_a_database_of_something_else_is_no_clean_bill(lock: Path, tmp_path: Path) -> None:
    assert vulnerabilities.main(str(database(tmp_path, about(ecosystem="Go", versions=["3.9.1"]))), lock) == 2


def test_every_locked_version_can_be_compared() -> None:
    packages = vulnerabilities.locked(house.ROOT / "uv.lock")
    assert len(packages) > 50
    everything = [about(name, **within({"introduced": "0"})) for name, _ in packages]
    assert all(vulnerabilities.is_affected(version, everything[0]) for _, version in packages)
