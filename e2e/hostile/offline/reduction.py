"""The few objects of a round that it takes for a finding, and the finding with them as a file."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from e2e.hostile.objects.draw import written
from e2e.hostile.objects.generator import Hostile, generate
from e2e.hostile.offline.rounds import Finding, Round


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with the objects that it takes, as a file holds it: seed and numbers are enough to run it again."""

    finding: Finding
    numbers: tuple[int, ...]
    about: tuple[tuple[str, ...], ...]
    objects: tuple[str, ...]


def has(objects: Sequence[Hostile], signature: str) -> bool:
    """Whether a round of these objects ends with the same finding."""
    return any(each.signature == signature for each in Round(objects).run())


def reduced(
    objects: Sequence[Hostile], signature: str, is_found: Callable[[Sequence[Hostile], str], bool] = has
) -> tuple[Hostile, ...]:
    """Leave out one object after the other, as long as the finding stays."""
    kept = list(objects)
    for each in objects:
        fewer = [other for other in kept if other is not each]
        if fewer and is_found(fewer, signature):
            kept = fewer
    return tuple(kept)


def report(finding: Finding) -> Report:
    """Find the objects that a finding takes."""
    objects = [generate(finding.seed, number) for number in finding.numbers]
    own = [each for each in objects if each.number == finding.number]
    least = tuple(own) if own and has(own, finding.signature) else reduced(objects, finding.signature)
    return Report(
        finding=finding,
        numbers=tuple(each.number for each in least),
        about=tuple((each.kind.value, *each.about) for each in least),
        objects=tuple(written(each.manifest).decode() for each in least),
    )


def save(folder: Path, found: Report) -> Path:
    """Write a report to a file of its own; give its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"finding-{found.finding.seed}-{'-'.join(map(str, found.numbers[:6]))}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    return path
