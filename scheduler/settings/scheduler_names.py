"""
The names that pods write as spec.schedulerName: which of them profiles serve, and what is said of the others.

A pod with a name that nobody serves waits without a word: no scheduler writes a condition, and the API server lets
nobody change the field.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from scheduler.settings.loading import served
from scheduler.settings.schema import Settings
from solver.domain import wording

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""What the API server sets as spec.schedulerName of a pod that names none."""
_OURS: Final = "dovetail"
_THEIRS: Final = frozenset({DEFAULT_SCHEDULER})
"""Names that belong to another scheduler, however similar a profile of ours is named."""
LONGEST_NAME: Final = 100
"""Longer names are similar to none: the API server bounds no schedulerName."""
_SHOWN: Final = 64
"""Characters of a name in a message."""
NO_SCHEDULER: Final = "no Dovetail runs. Once one runs"
PAUSED: Final = "Dovetail is paused. After `dovetail resume`"
"""Why no scheduler decides about pods that it would place (`idle`), and what an answer about them supposes."""
_LONG: Final = 6
"""Words of at least this length may differ by two letters, shorter ones by one."""


class Serving(NamedTuple):
    """
    Who decides about pods, with which settings; `unserved` is what to say where none serves the name in them.

    The answer is then what the scheduler `name` would decide if they named it.
    """

    name: str
    settings: Settings
    unserved: str = ""


def serving(settings: Settings, name: str, known: Collection[str], *, is_certain: bool) -> Serving:
    """
    Say who decides about pods that name a scheduler: the one that serves them, or is meant by their name.

    `known` are the names that are served; empty: not known. `is_certain` is as in `unserved`.
    """
    said = unserved(name, known, is_certain=is_certain) if known else ""
    return Serving(*served(settings, served_instead(name, known) if said else name), said)


def unserved(name: str, known: Collection[str], *, is_certain: bool = True) -> str:
    """
    Say that no profile serves the scheduler that pods name, and what to write instead; "" where one does.

    Where it is not certain that the known names are all, one may serve any name that is no other's and not misspelt.
    """
    if not name or name in known:
        return ""
    if not (is_certain or name in _THEIRS or similar_name(name, known)):
        return ""
    of_none = ", which a pod gets that names none" if name == DEFAULT_SCHEDULER else ""
    return (
        f"Dovetail schedules no pod with schedulerName {wording.quoted(name, _SHOWN)}{of_none}: it serves "
        f"{wording.listed(known)}. Write schedulerName: {served_instead(name, known)}; that of a pod that exists "
        "cannot be changed, so make the pod anew"
    )


def served_instead(name: str, known: Collection[str]) -> str:
    """Return the name itself where it is served, else the served name that is meant by it, or the first one."""
    if not name or name in known:
        return name
    return similar_name(name, known) or (_OURS if _OURS in known else min(known))


def misspelt(names: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the names that nobody serves and that are nearly those of profiles, in alphabetical order."""
    return tuple(each for each in sorted(set(names)) if each not in known and similar_name(each, known))


def led(said: str, answer: str, idle: str = "") -> str:
    """Put before an answer why no pod would start, as `condition` says it."""
    found = condition(said, idle)
    return f"No pod would start: {found}: {answer}" if found else answer


def condition(said: str, idle: str) -> str:
    """Return why no pod would start and what an answer supposes: what `unserved` says, else `idle`; "" without both."""
    return f"{said}. With that name" if said else idle


def similar_name(name: str, known: Iterable[str]) -> str:
    """
    Return the known scheduler name that a user has probably meant by another one; empty if there is none.

    Case, separators and the word `scheduler` do not count. The name of the default profile means any profile of ours.

    >>> similar_name("Dovetail-Scheduler", ["dovetail"]), similar_name("volcano", ["dovetail"])
    ('dovetail', '')
    """
    if name in _THEIRS or len(name) > LONGEST_NAME:
        return ""
    names, plain = sorted(known), _plain(name)
    for each in names:
        other = _plain(each)
        most = 2 if min(len(plain), len(other)) >= _LONG else 1
        if plain and other and wording.edit_distance(plain, other, most) <= most:
            return each
    return names[0] if names and plain == _OURS else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]|scheduler", "", name.lower())
