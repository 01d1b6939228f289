"""A take-over waits for a watch that lags, and not for what was listed and has changed since."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.change import Kind
from scheduler.kube.client import Client
from scheduler.kube.watching import catch_up
from scheduler.kube.watching.reflector import Reflector
from tests.support.kube_objects import encoded


class Lists:
    """In the place of a client: lists with these versions, one after the other, and one object in each."""

    def __init__(self, *versions: str) -> None:
        self.left = list(versions)

    async def request(self, *_: Any, **__: Any) -> bytes:
        version = self.left.pop(0)
        items = [{"metadata": {"name": "a", "uid": "u", "resourceVersion": version}}]
        return encoded({"metadata": {"resourceVersion": version}, "items": items})


async def test_what_was_listed_and_is_never_shown_is_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "_AGAIN_SECONDS", 0.02)
    lists = Lists("9", "8", "opaque", "5")
    mirror = SimpleNamespace(kind=Kind.NODES, path="/api/v1/nodes", resource_version="5", shows=lambda _: False)
    await catch_up.catch_up(cast("Client", lists), cast("Reflector", mirror))
    assert not lists.left
