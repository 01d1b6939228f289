"""Several measurements as one text."""

import statistics
from collections.abc import Mapping, Sequence


def spread(values: Sequence[float], form: str = "{:.0f}") -> str:
    """Give the median, and the smallest and largest where they differ from it as shown."""
    low, middle, high = (form.format(value) for value in (min(values), statistics.median(values), max(values)))
    return middle if low == high else f"{middle} ({low}–{high})"


def turn_ratios(values: Mapping[int, float], others: Mapping[int, float]) -> list[float]:
    """Divide values by those of the same turn; turns without a value to divide by are left out."""
    return [value / others[turn] for turn, value in values.items() if others.get(turn)]
