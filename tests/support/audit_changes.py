"""Changes to what an audit reads: each breaks one thing; a path begins with the kind of object."""

from collections.abc import Callable
from typing import Any

from e2e import audit

Change = Callable[[audit.Objects], None]


def put(*path: str | int, value: Any) -> Change:
    """Set what a path leads to."""

    def change(objects: audit.Objects) -> None:
        _parent(objects, path)[path[-1]] = value

    return change


def drop(*path: str | int) -> Change:
    """Take away what a path leads to."""

    def change(objects: audit.Objects) -> None:
        del _parent(objects, path)[path[-1]]

    return change


def both(*changes: Change) -> Change:
    """Make all of some changes."""

    def change(objects: audit.Objects) -> None:
        for each in changes:
            each(objects)

    return change


def _parent(objects: audit.Objects, path: tuple[str | int, ...]) -> Any:
    at: Any = objects._asdict()
    for step in path[:-1]:
        at = at[step]
    return at
