"""The door: one hostile object for each pair of a seed and a number."""

from typing import Final

import msgspec

from e2e.hostile.objects.claims import CLAIMS
from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.groups import COSCHEDULING_GROUPS, POD_GROUPS, QUOTAS
from e2e.hostile.objects.holds import HOLDS
from e2e.hostile.objects.kinds import Manifest, Table
from e2e.hostile.objects.machines import BUDGETS, CLASSES, NAMESPACES, NODES, TAINT_RULES
from e2e.hostile.objects.mutation import mutate
from e2e.hostile.objects.pods import PODS, with_claim
from e2e.hostile.objects.slices import SLICES
from e2e.hostile.objects.storage import (
    ATTACHMENTS,
    NODE_DRIVERS,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    STORAGE_DRIVERS,
    VOLUME_CLAIMS,
    VOLUMES,
)
from scheduler.change import Kind

TABLES: Final[tuple[tuple[Table, float], ...]] = (
    (PODS, 10),
    (CLAIMS, 8),
    (SLICES, 5),
    (NODES, 2),
    (NAMESPACES, 1),
    (CLASSES, 2),
    (TAINT_RULES, 1),
    (BUDGETS, 2),
    (VOLUMES, 1),
    (VOLUME_CLAIMS, 2),
    (STORAGE_CLASSES, 1),
    (NODE_DRIVERS, 1),
    (STORAGE_CAPACITIES, 1),
    (STORAGE_DRIVERS, 1),
    (ATTACHMENTS, 1),
    (POD_GROUPS, 2),
    (COSCHEDULING_GROUPS, 2),
    (HOLDS, 2),
    (QUOTAS, 1),
)
"""Every kind that is watched, with its weight."""
_ADMITTED: Final = 0.8
"""The share of twists that are drawn from those that the API server admits."""
_MUTATED: Final = 0.12
_REFERRING: Final = 0.6


class Hostile(msgspec.Struct, frozen=True, kw_only=True):
    """One object: what it is, what is hostile in it, and whether the API server is expected to admit it."""

    seed: int
    number: int
    kind: Kind
    about: tuple[str, ...]
    manifest: Manifest
    is_admitted: bool


def generate(seed: int, number: int) -> Hostile:
    """Make the object that belongs to a seed and a number."""
    draw = Draw(seed, number)
    table = draw.weighted(TABLES)
    manifest = table.base(draw)
    is_hard = draw.chance(_ADMITTED)
    twists = draw.some([each for each in table.twists if each.is_admitted or not is_hard], draw.one((1, 1, 1, 3)))
    about = [each.about for each in twists]
    if table is PODS and draw.chance(_REFERRING):
        _refer(draw, manifest)
    for each in twists:
        try:
            each.change(draw, manifest)
        except (AttributeError, IndexError, KeyError, TypeError):
            about.append(f"({each.about} does not go with what was done before)")
    is_mutated = draw.chance(_MUTATED)
    if is_mutated:
        about.append("mutated")
        # A rule that cannot be read may taint everything, which is right, and takes the good pods' room.
        mutate(draw, manifest["spec"]["taint"] if table is TAINT_RULES else manifest)
    is_admitted = not is_mutated and all(each.is_admitted for each in twists)
    return Hostile(
        seed=seed, number=number, kind=table.kind, about=tuple(about), manifest=manifest, is_admitted=is_admitted
    )


def _refer(draw: Draw, pod: Manifest) -> None:
    """Let a pod ask for a claim that was generated shortly before, if that number is one."""
    with_claim(pod, "referred", {"resourceClaimName": f"mallory-{max(0, draw.number - 1 - draw.below(8))}"})


def base_of(hostile: Hostile) -> Manifest:
    """Make a valid object of the same kind and number."""
    table = next(table for table, _ in TABLES if table.kind is hostile.kind)
    return table.base(Draw(hostile.seed, hostile.number))
