"""matchAttribute over attributes that the selected devices do not publish."""

from collections.abc import Mapping, Sequence

from solver.feasibility.device_attributes import AttributeName, lookup
from solver.feasibility.lint import published
from solver.feasibility.lint.published import Candidate
from solver.feasibility.nearness import nearest


def of_match(attribute: AttributeName, selected: Mapping[str, Sequence[Candidate]], others: Sequence[Candidate]) -> str:
    """
    Say for which request no device publishes a constraint's attribute, and which one they share instead.

    `selected` are the devices that match each request, by its name; `others` are those that match none.
    """
    name = f"{attribute.domain}/{attribute.id}"
    for request, candidates in selected.items():
        if not candidates or any(lookup(each.driver, each.device, attribute) for each in candidates):
            continue
        told = f"no device that request {request} selects publishes {name}"
        if any(lookup(each.driver, each.device, attribute) for each in others):
            told += ", only others do"
        every = [
            {f"{domain}/{each}" for domain, each in published.names(candidate, is_capacity=False)}
            for group in selected.values()
            for candidate in group
        ]
        in_all = set.intersection(*every) if every else set()
        known = {each.partition("/")[2]: each for each in sorted(in_all)}
        close = nearest(attribute.id, known)
        return f"{told}: write {known[close]}" if close else told
    return ""
