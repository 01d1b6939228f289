"""The closed list as a page of the documentation: docs/differences.md is what `markdown` gives."""

from collections.abc import Iterator
from typing import Final

from e2e.differential.differences import (
    DIFFERENCES,
    OF_ALLOCATIONS,
    OF_CHANCE,
    OF_CONDITIONS,
    OF_EXPRESSIONS,
    Difference,
    More,
)

ISSUES: Final = "https://github.com/kubernetes/kubernetes/issues"
OPENING: Final = """\
# Where Dovetail and kube-scheduler differ on purpose

A pod of Dovetail may run where kube-scheduler (1.37) would let it run, and gets devices by the same rules. This is the
closed list of exceptions; any other difference is a defect. `make differential` compares both on thousands of generated
clusters and pods. What you configure is no difference: [quotas](quotas.md), [held room](holds.md),
[reserved nodes](policies.md#pods-that-are-passed-over), `devices.owned`.
"""
SECTIONS: Final = (
    (More.DOVETAIL, "A pod runs where kube-scheduler would not let it"),
    (More.KUBE_SCHEDULER, "A pod does not run where kube-scheduler would let it, or not with the same devices"),
    (More.EITHER, "A pod runs on other nodes"),
    (More.NEITHER, "The same pods run, and conditions or the order of trials differ"),
)


ENTRIES: Final = (*DIFFERENCES, *OF_ALLOCATIONS, *OF_EXPRESSIONS, *OF_CONDITIONS, *OF_CHANCE)


def markdown() -> str:
    """Write the page."""
    return "\n".join((OPENING, *_sections()))


def _sections() -> Iterator[str]:
    for side, heading in SECTIONS:
        yield f"## {heading}\n"
        for each in ENTRIES:
            if each.more is side:
                yield from _entry(each)


def _entry(each: Difference) -> Iterator[str]:
    issue = f" ([kubernetes#{each.upstream}]({ISSUES}/{each.upstream}))" if each.upstream else ""
    yield f"### {each.name[0].upper()}{each.name[1:]}\n"
    yield f"*{each.rule}*\n"
    yield f"- kube-scheduler: {each.theirs}{issue}"
    yield f"- Dovetail: {each.ours}"
    yield f"- Why: {each.reason}\n"
