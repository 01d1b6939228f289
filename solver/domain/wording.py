"""
How objects and texts of users enter messages.

A message is about a pod, and whoever reads it may read the pod's namespace. What is in another namespace is counted and
never named: names of objects enter a message about a pod through `seen` and `several` alone. Texts of users (selectors,
annotations, what is wrong with an object) are cut, and nothing in them can act on a terminal or break a line.
"""

from collections.abc import Iterable
from typing import Final

from solver.domain.ids import ClaimId, GangId, PodId, VolumeClaimId

Key = PodId | ClaimId | GangId | VolumeClaimId
LONGEST_TEXT: Final = 256
"""Characters of a user's text that a message quotes at most."""
_WORDS: Final[dict[type, str]] = {PodId: "pod", ClaimId: "claim", GangId: "gang", VolumeClaimId: "claim"}


def seen(key: Key, reader: str) -> str:
    """
    Name an object to a reader of one namespace.

    >>> seen(PodId("a", "web-0"), "a"), seen(PodId("b", "web-0"), "a")
    ('pod a/web-0', 'a pod of another namespace')
    """
    word = _WORDS[type(key)]
    return f"{word} {key}" if key.namespace == reader else f"a {word} of another namespace"


def several(keys: Iterable[Key], reader: str, most: int) -> str:
    """
    Name some objects of one kind: at most so many of the reader's namespace, and how many others there are.

    >>> several([PodId("a", "p"), PodId("b", "q"), PodId("b", "r")], "a", 3)
    'a/p and 2 of other namespaces'
    """
    every = list(keys)
    own = [str(key) for key in every if key.namespace == reader]
    parts = [", ".join(own[:most])] if own else []
    if len(own) > most:
        parts.append(f"{len(own) - most} more")
    if len(every) > len(own):
        others = len(every) - len(own)
        parts.append(f"{others} of {'other namespaces' if others > 1 else 'another namespace'}")
    return " and ".join(parts)


def printable(text: str) -> str:
    r"""
    Write what is no printable character as an escape: control characters, line breaks, marks of direction.

    >>> printable("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\\nc'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def quoted(text: str, most: int = LONGEST_TEXT) -> str:
    """Give a user's text as a message may hold it: printable, with an ellipsis in place of what is beyond `most`."""
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
