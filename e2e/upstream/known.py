"""Which tests end otherwise with Dovetail on purpose, and which look inside the built-in scheduler (`known.toml`)."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from e2e.controlplane.plane import REPOSITORY

FILE = Path(__file__).with_name("known.toml")
DIFFERENCES = REPOSITORY / "docs" / "differences.md"


@dataclass(frozen=True, slots=True)
class Known:
    """Tests, by a regular expression for the whole name, and the heading or the reason that explains them."""

    tests: str
    because: str
    kubernetes: str = ""

    def covers(self, test: str, kubernetes: str) -> bool:
        """Say whether a test of a version is one of these, or a sub-test of one."""
        return self.kubernetes in {"", kubernetes} and bool(re.fullmatch(f"({self.tests})(/.*)?", test))


@cache
def differences() -> tuple[Known, ...]:
    """Return the tests that differ, with a heading of `docs/differences.md`."""
    return tuple(
        Known(each["tests"], each["entry"], each.get("kubernetes", "")) for each in _read().get("difference", ())
    )


@cache
def inside() -> tuple[Known, ...]:
    """Return the tests that look inside the built-in scheduler, with what they look at."""
    return tuple(Known(each["tests"], each["reason"]) for each in _read().get("inside", ()))


def because(test: str, kubernetes: str) -> str:
    """Return what explains a test of a version, or an empty string."""
    return next((each.because for each in (*differences(), *inside()) if each.covers(test, kubernetes)), "")


def skipped(prefix: str) -> str:
    """Return a regular expression for the tests of a package that look inside, without the package's prefix."""
    own = (each.tests.removeprefix(prefix) for each in inside() if each.tests.startswith(prefix))
    return "|".join(f"^{tests}$" for tests in own)


def headings() -> set[str]:
    """Return the headings of the entries of `docs/differences.md`."""
    return set(re.findall(r"^### (.+)$", DIFFERENCES.read_text(), re.MULTILINE))


def _read() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads(FILE.read_text())
