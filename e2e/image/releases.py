"""
Whether lists of packages were valid at the moment of Debian's archive that an image is built from.

apt checks Debian's signature on each list (InRelease), but would compare its Valid-Until with today: an old moment
could never be built again. So apt leaves that out, and this compares it with the moment. mmdebstrap runs this file
before the first script of a package: it imports only the standard library.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

FORMAT = "%Y%m%dT%H%M%SZ"
"""A moment of Debian's archive, as in 20261125T000000Z."""


def problems(lists: Path, moment: datetime) -> Iterator[str]:
    """Say which lists in a folder of apt were not what Debian's archive gave at a moment."""
    found = sorted(lists.glob("*InRelease"))
    if not any("-security_" in path.name for path in found):
        yield f"{lists}: no list of security updates was read: name its archive among the sources"
    for path in found:
        yield from _problems_of(path, moment)


def _problems_of(path: Path, moment: datetime) -> Iterator[str]:
    fields = dict(line.split(": ", 1) for line in path.read_text(encoding="utf-8").splitlines() if ": " in line)
    if "Date" not in fields:
        yield f"{path.name}: has no Date: it is no list of packages"
        return
    if (made := _time(fields["Date"])) > moment:
        yield f"{path.name}: is of {made:%c}, which is after the moment {moment:{FORMAT}}: that archive had another one"
    if "Valid-Until" not in fields:
        if "-security_" in path.name:  # of the other suites Debian gives it to some
            yield f"{path.name}: has no Valid-Until, so it may be any old list"
    elif (until := _time(fields["Valid-Until"])) < moment:
        yield f"{path.name}: was valid until {until:%c}, before the moment {moment:{FORMAT}}: it is an old list"


def _time(text: str) -> datetime:
    """Read a time as Debian writes it: `Wed, 25 Nov 2026 22:33:12 UTC`."""
    return parsedate_to_datetime(text.replace("UTC", "+0000"))


def main() -> int:
    """Print what is wrong with the lists in a folder (argument 1) at a moment (argument 2); 1 where something is."""
    folder, moment = sys.argv[1:]
    found = list(problems(Path(folder), datetime.strptime(moment, FORMAT).replace(tzinfo=UTC)))
    for each in found:
        print(each, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
