"""What the replica has to be told: every change since it was last told, or everything after a restart."""

from typing import Final

from scheduler.change import Change, Kind


class Feed:
    """
    The last change of every object, and which of them the present replica has not seen.

    Only the last change of an object matters to a replica, so that a busy object waits once however often it
    changes during a solve. The objects are the mirror's own: a feed holds references, no copies.
    """

    def __init__(self) -> None:
        self._last: Final[dict[tuple[Kind, str], Change]] = {}
        self._untold: Final[dict[tuple[Kind, str], None]] = {}
        self._has_replica = False

    def __len__(self) -> int:
        """Give the number of changes that `take` would give."""
        return len(self._untold)

    @property
    def count(self) -> int:
        """The number of objects that a replica holds."""
        return len(self._last)

    def note(self, change: Change) -> None:
        """Take a change that the mirror took."""
        key = (change.kind, change.key)
        self._untold.pop(key, None)
        if change.value is None and not self._has_replica:
            self._last.pop(key, None)  # a replica that is empty need not be told what is gone
            return
        self._untold[key] = None
        self._last[key] = change

    def has_told(self, kind: Kind, key: str, value: object) -> bool:
        """Whether the replica has been told this very value of an object, and nothing newer is waiting."""
        last = self._last.get((kind, key))
        return last is not None and last.value is value and (kind, key) not in self._untold

    def take(self) -> tuple[Change, ...]:
        """Give what the replica has not been told, in the order of the last changes, and count it as told."""
        changes = tuple(self._last[key] for key in self._untold)
        self._untold.clear()
        for change in changes:
            if change.value is None:
                self._last.pop((change.kind, change.key), None)
        return changes

    def lose(self) -> None:
        """Note that there is no replica until `start_over`: what is gone meanwhile is not kept for it."""
        self._has_replica = False
        self._drop_gone()

    def start_over(self) -> None:
        """Count everything as untold, for a replica that is empty."""
        self._has_replica = True
        self._drop_gone()
        self._untold.clear()
        self._untold.update(dict.fromkeys(self._last))

    def _drop_gone(self) -> None:
        for key in [key for key, change in self._last.items() if change.value is None]:
            del self._last[key]
            self._untold.pop(key, None)
