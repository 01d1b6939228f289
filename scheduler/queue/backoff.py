"""How long a pod rests after an attempt that did not place it."""

import msgspec


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """A rest that doubles with every attempt, from `initial_seconds` to `ceiling_seconds` (as kube-scheduler's)."""

    initial_seconds: float = 1.0
    ceiling_seconds: float = 10.0

    def seconds(self, attempts: int) -> float:
        """Give the rest after the attempt with this number, the first being 1."""
        rest = self.initial_seconds
        for _ in range(attempts - 1):
            rest *= 2
            if rest >= self.ceiling_seconds:
                break
        return min(rest, self.ceiling_seconds)
