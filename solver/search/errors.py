"""
What a search finds out about itself: bugs of ours, never properties of a cluster.

    SearchError
    ├── ModelMismatchError   greedy and model disagree about what is possible
    └── ContradictionError   a bound below a value that is known, or no solution beside one that is known
"""


class SearchError(Exception):
    """A search contradicts what is known: nothing that it says may be used."""


class ModelMismatchError(SearchError):
    """Greedy and model disagree about what is possible: a bug in one of them."""


class ContradictionError(SearchError):
    """A proof that cannot be: of a bound, a rule of the model or an engine one is wrong."""


def proves(level: str, bound: int | None, value: int) -> bool:
    """Whether a bound proves that a value of a level is the best; raises `ContradictionError` where it is below."""
    if bound is not None and bound < value:
        raise ContradictionError(f"level {level}: a bound of {bound} is below the value {value}, which is known")
    return bound is not None and bound == value
