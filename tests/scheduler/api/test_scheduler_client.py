"""How a command reaches a running scheduler through the API server, and what it says where it does not."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from scheduler.api import scheduler_client
from scheduler.api.scheduler_client import SchedulerAddress
from scheduler.kube.access import ClusterAccess
from scheduler.kube.errors import ApiError, ConfigurationError, NotFound

_ABSENT = 'no endpoints available for service "dovetail-api"'


class _Refusing:
    """An API server that refuses every request."""

    def __init__(self, error: ApiError) -> None:
        self._error = error

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        yield self

    async def bearer_token(self) -> str:
        return "token"

    async def request(self, *_: Any, **__: Any) -> bytes:
        raise self._error


async def _ask(error: ApiError) -> None:
    access = cast("ClusterAccess", _Refusing(error))
    await scheduler_client.ask(access, SchedulerAddress(service="ns/api"), "history", {})


@pytest.mark.parametrize(
    "error", [NotFound(404, "NotFound", 'services "api" not found'), ApiError(503, "ServiceUnavailable", _ABSENT)]
)
async def test_where_no_scheduler_is_behind_the_service_it_says_what_to_do(error: ApiError) -> None:
    with pytest.raises(ConfigurationError, match=r"behind the Service ns/api.*switched on.*--service.*--server"):
        await _ask(error)


async def test_other_refusals_are_told_as_they_are() -> None:
    with pytest.raises(ApiError, match="the solver decides"):
        await _ask(ApiError(503, "ServiceUnavailable", "the solver decides about pods and has no time now"))
