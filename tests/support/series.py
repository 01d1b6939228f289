"""Reads the series of a running scheduler, as a scrape does."""

from prometheus_client.parser import text_string_to_metric_families

from e2e.dovetail import Dovetail


def exposition(dovetail: Dovetail) -> str:
    """
    Return the text that a scrape gets.

    Scrapes share a text for a moment. So what has just happened is waited for, not asserted; what did not happen is
    asserted of a text that has what happened after it.
    """
    return dovetail.get("/metrics")[1]


def series(dovetail: Dovetail, name: str, **labels: str) -> float:
    """Sum the samples of a name that have these labels among theirs; 0 where there are none."""
    return total(exposition(dovetail), name, **labels)


def total(text: str, name: str, **labels: str) -> float:
    """Sum the samples of a text, as `series` does."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())
