"""
Which locked packages have known vulnerabilities, by a database on disk: `python -m e2e.vulnerabilities all.zip`.

The database is what OSV exports for PyPI (https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip): one JSON
file for each vulnerability (https://ossf.github.io/osv-schema). Nothing is sent anywhere. With network `uv audit` asks
OSV itself. The exit status is 0 without a vulnerability, 1 with one, and 2 where the database cannot be used.
"""

import argparse
import json
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

LOCK = Path(__file__).parents[1] / "uv.lock"
ECOSYSTEM = "PyPI"

Json = dict[str, Any]


class Finding(NamedTuple):
    """A vulnerability of a locked package."""

    package: str
    version: str
    identifier: str
    summary: str
    fixed: tuple[str, ...]

    def __str__(self) -> str:
        fixed = f"fixed in {', '.join(self.fixed)}" if self.fixed else "no version is fixed"
        return f"{self.package} {self.version}: {self.identifier} ({fixed}): {self.summary}"


class DatabaseError(Exception):
    """The database cannot be used."""


def locked(lock: Path) -> list[tuple[str, str]]:
    """Name and version of every package of a uv.lock that comes from a registry."""
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["package"]
    return [(canonicalize_name(each["name"]), each["version"]) for each in packages if "registry" in each["source"]]


def records(database: Path) -> Iterator[Json]:
    """Read the vulnerabilities of a database. Raise `DatabaseError`."""
    try:
        with zipfile.ZipFile(database) as archive:
            for name in archive.namelist():
                record = json.loads(archive.read(name))
                if not record.get("withdrawn"):
                    yield record
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DatabaseError(f"{database}: cannot be read: {error}; write the path of OSV's all.zip for PyPI") from error


def findings(packages: list[tuple[str, str]], known: Iterator[Json]) -> list[Finding]:
    """Return the vulnerabilities of some packages, sorted. Raise `DatabaseError` where none is about PyPI."""
    versions, found, count = dict[str, list[str]](), set[Finding](), 0
    for name, version in packages:
        versions.setdefault(name, []).append(version)
    for record in known:
        for affected in record.get("affected", []):
            package = affected.get("package", {})
            count += package.get("ecosystem") == ECOSYSTEM
            if package.get("ecosystem") != ECOSYSTEM:
                continue
            name = canonicalize_name(package.get("name", ""))
            found |= {
                Finding(name, version, record["id"], record.get("summary", ""), _fixed(affected))
                for version in versions.get(name, ())
                if is_affected(version, affected)
            }
    if not count:
        raise DatabaseError(
            f"the database has no vulnerability of {ECOSYSTEM}: write the path of OSV's all.zip for PyPI"
        )
    return sorted(found)


def is_affected(version: str, affected: Json) -> bool:
    """Whether a version is among those that are affected: listed, or within a range."""
    if version in affected.get("versions", ()):
        return True
    ranges = [each for each in affected.get("ranges", ()) if each["type"] == "ECOSYSTEM"]
    return any(_is_within(Version(version), each["events"]) for each in ranges)


def _is_within(version: Version, events: list[Json]) -> bool:
    """Whether the last event up to a version leaves it affected; an unreadable bound counts as affected."""
    is_within = False
    try:
        for event in sorted(events, key=lambda each: _bound(next(iter(each.values())))):
            ((kind, text),) = event.items()
            if kind == "introduced" and version >= _bound(text):
                is_within = True
            elif (kind == "fixed" and version >= _bound(text)) or (kind == "last_affected" and version > _bound(text)):
                is_within = False
    except InvalidVersion:
        return True
    return is_within


def _bound(text: str) -> Version:
    """The version of an event; "0" is before all others."""
    return Version("0.dev0" if text == "0" else text)


def _fixed(affected: Json) -> tuple[str, ...]:
    events = [event for each in affected.get("ranges", ()) if each["type"] == "ECOSYSTEM" for event in each["events"]]
    return tuple(dict.fromkeys(event["fixed"] for event in events if "fixed" in event))


def main(database: str, lock: Path = LOCK) -> int:
    """Print what is found."""
    packages = locked(lock)
    try:
        found = findings(packages, records(Path(database)))
    except DatabaseError as error:
        print(error, file=sys.stderr)
        return 2
    for each in found:
        print(each)
    print(f"{len(found)} known vulnerabilities in {len(packages)} locked packages")
    return 1 if found else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m e2e.vulnerabilities", description=__doc__.partition("\n\n")[0])
    parser.add_argument("database", metavar="all.zip", help="OSV's export for PyPI")
    sys.exit(main(parser.parse_args().database))
