"""Which of the names that exist is meant by one that does not."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NEAR: Final = 0.65
_PART: Final = 0.8
_LEAST_PART: Final = 3
_SHOWN: Final = 4


def nearest(name: str, known: Iterable[str]) -> str:
    """
    Give the known name that is most like another one, empty where none is near.

    Names are alike by their letters, by the words that they are made of (`migProfile` and `profile`), or where one is
    a part of the other.
    """
    scored = [(_likeness(name, each), each) for each in sorted(set(known))]
    best = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    return best[1] if best[0] >= _NEAR else ""


def listed(names: Iterable[str], quote: str = "") -> str:
    """List some names for a message, and how many more there are."""
    every = sorted(set(names))
    shown = ", ".join(f"{quote}{each}{quote}" for each in every[:_SHOWN])
    return shown + (f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else "")


def suggestion(name: str, known: Iterable[str], *, what: str) -> str:
    """Say which known name is meant, or which there are: `did you mean a?`, `there are a, b`."""
    every = sorted(set(known))
    close = nearest(name, every)
    return f"did you mean {close}?" if close else there_are(every, what)


def there_are(known: Iterable[str], what: str) -> str:
    """List what there is: `there are a, b`."""
    every = sorted(set(known))
    return f"there {'are' if len(every) > 1 else 'is'} {listed(every)}" if every else f"there is no {what} at all"


def _likeness(one: str, other: str) -> float:
    """Between 0 and 1."""
    left, right = one.lower(), other.lower()
    ratio = difflib.SequenceMatcher(None, left, right).ratio()
    words, others = set(_words(one)), set(_words(other))
    shared = len(words & others) / max(1, min(len(words), len(others)))
    part = _PART if len(min(left, right, key=len)) >= _LEAST_PART and (left in right or right in left) else 0.0
    return max(ratio, part, shared * _PART + ratio / 10)


def _words(name: str) -> Iterable[str]:
    return (word.lower() for word in _WORDS.findall(name))
