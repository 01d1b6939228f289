"""Namespaces (core/v1 Namespace)."""

import msgspec


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace with its labels, sorted by key."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
