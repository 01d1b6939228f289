"""
The cases of fail points, and what docs/robustness.md says of them: scenes, writes and moments.

`python -m tests.support.fail_point_matrix` writes it into the page.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.fail_points import GUARDED, KINDS, LATE, MOMENTS, Moment
from tests.support.scenes import SCENES

PAGE: Final = Path(__file__).parents[2] / "docs" / "robustness.md"
BEGIN: Final = "<!-- fail points: made by python -m tests.support.fail_point_matrix -->\n\n"
END: Final = "\n<!-- end of fail points -->"
GROUPS: Final = (
    "connection lost",
    "refused",
    "process killed",
    "leader stopped",
    "leader stopped until all is settled",
)


def group_of(moment: Moment) -> str:
    """Return the column of a moment."""
    if moment.holds == LATE:
        return GROUPS[4]
    if moment.holds:
        return GROUPS[2] if moment.holds.startswith("kill") else GROUPS[3]
    return GROUPS[1] if moment.answer else GROUPS[0]


def cases() -> Iterator[str]:
    """Every write of every scene at every moment."""
    for scene, made in SCENES.items():
        for kind, number in made.writes:
            yield from (f"{scene}-{kind}-{number}-{moment}" for moment in MOMENTS if is_tried(kind, moment))


def covering_cases() -> Iterator[str]:
    """A few cases with every cell of the matrix, every write of every scene, and every moment."""
    writes = defaultdict[str, list[str]](list)
    for scene, made in SCENES.items():
        for kind, number in made.writes:
            writes[kind].append(f"{scene}-{kind}-{number}")
    moments = {group: [name for name, each in MOMENTS.items() if group_of(each) == group] for group in GROUPS}
    turns = Counter[str]()
    for kind, names in writes.items():
        cells = [group for group in GROUPS if is_tried(kind, moments[group][0])]
        for index in range(max(len(names), len(cells))):
            group = cells[index % len(cells)]
            moment = moments[group][turns[group] % len(moments[group])]
            turns[group] += 1
            yield f"{names[index % len(names)]}-{moment}"


def is_tried(kind: str, moment: str) -> bool:
    """Whether a write of a kind may do no harm at a moment."""
    return MOMENTS[moment].holds != LATE or kind in GUARDED


def matrix() -> str:
    """Return how many cases there are, the writes with how often scenes make each, and the names of the moments."""
    moments = {group: [name for name, each in MOMENTS.items() if group_of(each) == group] for group in GROUPS}
    writes = Counter(kind for scene in SCENES.values() for kind, _ in scene.writes)
    counted = ", ".join(f"`{kind}` ({writes[kind]})" for kind in KINDS if writes[kind])
    names = [f"- {group}: {', '.join(f'`{each}`' for each in names)}" for group, names in moments.items()]
    names[-1] += f", of {', '.join(f'`{kind}`' for kind in KINDS if kind in GUARDED)} alone"
    lead = f"{len(SCENES)} scenes, {len(list(cases()))} cases: each write of a scene at each moment."
    scenes = f"- Scenes: {', '.join(f'`{each}`' for each in SCENES)}."
    kinds = f"- Writes, with how many the scenes make: {counted}."
    return "\n".join(("", lead, "", scenes, kinds, *names, "")).lstrip("\n")


def in_page(text: str) -> str:
    """Return what stands between the marks of the page."""
    return text.partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(old.replace(BEGIN + in_page(old), BEGIN + matrix()), encoding="utf-8")
