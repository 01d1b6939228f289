"""What a caller of the scheduler's API may see, and how much of an answer is left out for that."""

import msgspec


class VisibleNamespaces(msgspec.Struct, frozen=True):
    """Some namespaces, or all of them."""

    names: frozenset[str] = frozenset()
    everything: bool = False

    def __contains__(self, namespace: str) -> bool:
        return self.everything or namespace in self.names

    def __bool__(self) -> bool:
        return self.everything or bool(self.names)

    def __and__(self, other: "VisibleNamespaces") -> "VisibleNamespaces":
        if self.everything or other.everything:
            return other if self.everything else self
        return VisibleNamespaces(self.names & other.names)


class HiddenCounts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How much a document leaves out, because the caller may not list it."""

    pods: int = 0
    devices: int = 0
    namespaces: int = 0
