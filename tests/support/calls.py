"""Counting the calls of a function: work is bounded in tests by how often something is done, not by time."""

from typing import Any

import pytest


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[Any]:
    """Note the first argument of every call from now on."""
    calls: list[Any] = []
    original = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments[0])
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, call)
    return calls
