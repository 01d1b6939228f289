"""The door: every extreme object, made when it is asked for, since each has megabytes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from e2e.hostile.extremes.bases import base
from e2e.hostile.extremes.entries import Manifest
from e2e.hostile.extremes.refused import Refusal, refusals, refused
from e2e.hostile.extremes.served import page, served, written
from e2e.hostile.extremes.texts import texts
from e2e.hostile.extremes.wide import ENTRIES, lists_on, spread, widest
from scheduler.change import Kind


@dataclass(frozen=True, slots=True)
class Extreme:
    """A kind in a shape; `make` gives the manifest as a client sends it, of the largest size that etcd admits."""

    kind: Kind
    shape: str
    make: Callable[[], Manifest]


@dataclass(frozen=True, slots=True)
class ServedObject:
    """An extreme object as it arrives: its JSON, and whether and where it is refused."""

    kind: Kind
    shape: str
    refusal: Refusal
    text: bytes

    def event(self) -> bytes:
        """Write the line of a watch."""
        return b'{"type":"MODIFIED","object":' + self.text + b"}\n"

    def page(self, large: int = 4, small: int = 496) -> bytes:
        """Write a page that has the object several times, with other names, among small ones."""
        name = b'"name":"mallory-0"'
        copies = [self.text.replace(name, b'"name":"large-%d"' % number, 1) for number in range(large)]
        others = [written(served(base(self.kind, f"small-{number}"))) for number in range(small)]
        return page([*others[: small // 2], *copies, *others[small // 2 :]])


def extremes(kinds: Iterable[Kind] = tuple(Kind)) -> Iterator[Extreme]:
    """List all objects, by kind."""
    for kind in kinds:
        for path in ENTRIES[kind]:
            yield Extreme(kind, f"wide {path}", partial(widest, kind, path))
            if len(lists_on(path)) > 1:
                yield Extreme(kind, f"spread {path}", partial(spread, kind, path))
        for shape, make in texts(kind).items():
            yield Extreme(kind, shape, make)


def as_served(extreme: Extreme, manifest: Manifest, refusal: Refusal = Refusal.READABLE) -> ServedObject:
    """Write an object as the API server serves it."""
    whole = served(refused(extreme.kind, manifest, refusal))
    return ServedObject(extreme.kind, extreme.shape, refusal, written(whole))


def all_served(kinds: Iterable[Kind] = tuple(Kind)) -> Iterator[ServedObject]:
    """Write all objects, each readable and refused in each way; one at a time."""
    for extreme in extremes(kinds):
        manifest = extreme.make()
        for refusal in refusals(extreme.kind):
            yield as_served(extreme, manifest, refusal)


__all__ = ["Extreme", "Refusal", "ServedObject", "all_served", "as_served", "extremes"]
