"""Several measurements as one text."""

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float], form: str = "{:.0f}") -> str:
    """Give the median, and the smallest and largest where they differ from it as shown."""
    low, middle, high = (form.format(value) for value in (min(values), statistics.median(values), max(values)))
    return middle if low == high else f"{middle} ({low}–{high})"
