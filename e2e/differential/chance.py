"""A seeded source of choices in which features are on or off for a whole group, so that pairs of them stand out."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Choices of one group; the same seed gives the same ones."""

    def __init__(self, seed: int, weights: Mapping[str, float], only: frozenset[str] = frozenset()) -> None:
        self._order = random.Random(seed)  # noqa: S311 - no secret
        drawn = {name: self._order.random() for name in weights}
        self.features = frozenset(
            name for name, weight in weights.items() if (name in only if only else drawn[name] < weight)
        )

    def has(self, feature: str) -> bool:
        """Say whether a feature is on in this group."""
        return feature in self.features

    def some(self, feature: str, often: float) -> bool:
        """Say whether a feature is on and used here."""
        return self.has(feature) and self.often(often)

    def often(self, share: float) -> bool:
        """Say yes in a share of the times."""
        return self._order.random() < share

    def half(self) -> bool:
        """Say yes half of the time."""
        return self.often(0.5)

    def seldom(self) -> bool:
        """Say yes one time in six."""
        return self.often(1 / 6)

    def pick(self, choices: Sequence[T]) -> T:
        """Choose one."""
        return self._order.choice(choices)

    def picks(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        """Choose some different ones."""
        return self._order.sample(choices, self._order.randint(min(least, len(choices)), min(most, len(choices))))

    def number(self, least: int, most: int) -> int:
        """Choose a number, both ends included."""
        return self._order.randint(least, most)
