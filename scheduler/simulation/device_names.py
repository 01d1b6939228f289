"""Names of devices and pools, for tables; it imports no solver."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from solver.domain import PoolId

_NUMBERED: Final = re.compile(r"^(.*?)(\d{1,18})$")
_LEAST_RUN: Final = 3


def pool_name(pool: PoolId, node: str) -> str:
    """Name a pool beside a pod on a node: by its driver where the pool has the name of the node."""
    return pool.driver if pool.pool == node else str(pool)


def runs(devices: Iterable[str]) -> Iterator[str]:
    """Shorten runs of consecutive numbers: gpu-0 … gpu-7."""
    run: list[str] = []
    for device in [*devices, ""]:
        if run and not _follows(run[-1], device):
            yield from [f"{run[0]} … {run[-1]}"] if len(run) >= _LEAST_RUN else run
            run = []
        run.append(device)


def _follows(before: str, after: str) -> bool:
    first, second = _NUMBERED.match(before), _NUMBERED.match(after)
    return bool(first and second and first[1] == second[1] and int(first[2]) + 1 == int(second[2]))
