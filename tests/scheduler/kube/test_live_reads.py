"""Live reads whose answers were damaged on their way."""

from typing import Any, cast

import pytest

from scheduler.kube.client import Client
from scheduler.kube.errors import Unreachable
from scheduler.kube.writes import read_claim, read_pod
from solver.domain import ClaimId, PodId


class DamagingWay:
    """In the place of a client: its answers begin as an object and go on as something else."""

    async def request(self, *_: object, **__: Any) -> bytes:
        return b'{"metadata": {"name": "c", "managedFields": [{"a": \x17\x03]}'


async def test_an_answer_that_is_no_object_counts_as_none_so_that_it_is_read_again() -> None:
    client = cast("Client", DamagingWay())
    with pytest.raises(Unreachable, match="cannot be read"):
        await read_claim(client, ClaimId("ml", "c"))
    with pytest.raises(Unreachable, match="cannot be read"):
        await read_pod(client, PodId("ml", "p"))
