"""
How object names, counts and user texts enter messages.

The readers of a message about a pod have access to the pod's namespace. Objects of other namespaces are counted and
never named: names enter a message only through `seen` and `several`. User texts (selectors, annotations, decoding
errors) are shortened and escaped, so that they cannot control a terminal or break a line. `suggestion` finds the known
name that is most similar to an unknown one.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from solver.domain.ids import ClaimId, GangId, PodId, VolumeClaimId

Key = PodId | ClaimId | GangId | VolumeClaimId
HINT: Final = "; hint: "
"""Separates a reason from the hint behind it."""
FITS_NOW: Final = "would fit now"
"""Says of fewer devices that they fit, in a hint."""
HELD_BY: Final = ", now held by "
"""Stands in a change before the pods that have to give devices back."""
LONGEST_TEXT: Final = 256
"""The most characters of a user text in a message."""
_WORDS: Final[dict[type, str]] = {PodId: "pod", ClaimId: "claim", GangId: "gang", VolumeClaimId: "claim"}


def seen(key: Key, reader: str) -> str:
    """
    Name an object for a reader of one namespace.

    >>> seen(PodId("a", "web-0"), "a"), seen(PodId("b", "web-0"), "a")
    ('pod a/web-0', 'a pod of another namespace')
    """
    word = _WORDS[type(key)]
    return f"{word} {key}" if key.namespace == reader else f"a {word} of another namespace"


def several(keys: Iterable[Key], reader: str, most: int) -> str:
    """
    Name at most `most` objects of the reader's namespace, and count the others.

    >>> several([PodId("a", "p"), PodId("b", "q"), PodId("b", "r")], "a", 3)
    'a/p and 2 of other namespaces'
    """
    every = list(keys)
    own = [key for key in every if key.namespace == reader]
    return own_and_others(own, len(every) - len(own), most)


def own_and_others(own: Sequence[Key], others: int, most: int) -> str:
    """Do as `several`, where the objects of the reader's namespace are given, and the number of the others."""
    parts = [", ".join(map(str, own[:most]))] if own else []
    if len(own) > most:
        parts.append(f"{len(own) - most} more")
    if others:
        parts.append(f"{others} of {'other namespaces' if others > 1 else 'another namespace'}")
    return " and ".join(parts)


def printable(text: str) -> str:
    r"""
    Escape all characters that are not printable: control characters, line breaks, direction marks.

    >>> printable("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\\nc'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def quoted(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a user text for a message: printable, and shortened to `most` characters with an ellipsis."""
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


_WORD_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NEAR: Final = 0.65
_PART: Final = 0.8
_LEAST_PART: Final = 3
_SHOWN: Final = 4


def nearest(name: str, known: Iterable[str]) -> str:
    """
    Return the known name that is most similar to a name, empty if none is similar.

    Names are similar by their letters, by the words in them (`migProfile` and `profile`), or if one contains the other.
    """
    scored = [(_likeness(name, each), each) for each in sorted(set(known))]
    best = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    return best[1] if best[0] >= _NEAR else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask behind a message whether the most similar of the known names was meant; "" where none is similar."""
    close = nearest(name, known)
    return f": did you mean {close}?" if close else ""


def edit_distance(one: str, other: str, most: int) -> int:
    """
    Return the fewest letters to insert, delete, replace or swap with the next one that turn one text into the other.

    Above `most` the result is `most + 1`.

    >>> edit_distance("dovetial", "dovetail", 2), edit_distance("volcano", "dovetail", 2)
    (1, 3)
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before, row = list[int](), list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            is_swapped = i > 1 and j > 1 and (letter, wanted) == (other[j - 2], one[i - 2])
            row.append(min(cost, earlier[j - 2] + 1) if is_swapped else cost)
    return min(row[-1], most + 1)


def listed(names: Iterable[str]) -> str:
    """List the first known names in alphabetical order, and count the others: `a, b, c, d and 3 more`."""
    return shortened(sorted(set(names)), _SHOWN)


NO_CONTROLLER: Final = "it has no controller that would make it anew"
NO_ROOM_FOR_SUCCESSOR: Final = "there is no room for its successor"
NO_ROOM_FOR_SET: Final = "its set finds no room as a whole"
"""Why a pod that has to leave is not moved."""


def shortened(names: Sequence[str], most: int) -> str:
    """List the first names in their order, and count the others: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def and_others(count: int) -> str:
    """Say that a message names one of `count` objects: ` (and 2 more)`, empty if there are no others."""
    return f" (and {count - 1} more)" if count > 1 else ""


def nouns(count: int, noun: str) -> str:
    """Return a noun in the number of a count: `request`, `requests`."""
    return noun if count == 1 else f"{noun}s"


def counted(count: int, noun: str) -> str:
    """Write a count with its noun: `1 device`, `2 devices`."""
    return f"{count} {nouns(count, noun)}"


def suggestion(name: str, known: Iterable[str], *, what: str) -> str:
    """Suggest a similar known name, or list the known names: `did you mean a?`, `there are a, b`."""
    every = sorted(set(known))
    close = nearest(name, every)
    return f"did you mean {close}?" if close else there_are(every, what)


def there_are(known: Iterable[str], what: str) -> str:
    """List the known names: `there are a, b`."""
    every = sorted(set(known))
    return f"there {'are' if len(every) > 1 else 'is'} {listed(every)}" if every else f"there is no {what} at all"


def _likeness(one: str, other: str) -> float:
    """Return the similarity of two names, between 0 and 1."""
    left, right = one.lower(), other.lower()
    ratio = difflib.SequenceMatcher(None, left, right).ratio()
    words, others = set(_words(one)), set(_words(other))
    shared = len(words & others) / max(1, min(len(words), len(others)))
    part = _PART if len(min(left, right, key=len)) >= _LEAST_PART and (left in right or right in left) else 0.0
    return max(ratio, part, shared * _PART + ratio / 10)


def _words(name: str) -> Iterable[str]:
    return (word.lower() for word in _WORD_PARTS.findall(name))
