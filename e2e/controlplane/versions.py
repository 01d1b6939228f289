"""Which minor versions of Kubernetes the control plane can be built as, and which one is meant."""

import os
from typing import Final

SUPPORTED: Final = ("1.34", "1.35", "1.36", "1.37")
"""Each has `go/VERSION.mod` and `go/VERSION.sum` with the newest patch that the module proxy serves."""
OLDEST: Final = SUPPORTED[0]
DEFAULT: Final = "1.36"
VARIABLE: Final = "DOVETAIL_KUBERNETES"
"""The environment variable that chooses a version for a whole test run; without it the default is meant."""


class UnknownVersionError(ValueError):
    """No control plane of this version can be built; the message lists those that can."""


def chosen(kubernetes: str | None = None) -> str:
    """Return the version that is named, else that of the environment, else the default. Raises UnknownVersionError."""
    name = kubernetes or os.environ.get(VARIABLE) or DEFAULT
    if name not in SUPPORTED:
        raise UnknownVersionError(f"Kubernetes {name} cannot be built; choose one of {', '.join(SUPPORTED)}")
    return name


def minor(kubernetes: str) -> int:
    """Return the minor number: 37 of "1.37"."""
    return int(kubernetes.partition(".")[2])
