"""What some devices publish, looked up by the names that CEL uses."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from solver.domain import AttributeKind, AttributeValue, Device, DeviceId, Quantity
from solver.domain.quantity import NANO, format_nano
from solver.feasibility.cel.reads import Read
from solver.feasibility.cel.versions import parse_semver

_MEBIBYTE: Final = 2**20 * NANO
_GIBIBYTE: Final = 2**30 * NANO

Value = AttributeValue | Quantity


class Candidate(NamedTuple):
    """A device that a request could select."""

    id: DeviceId
    device: Device

    @property
    def driver(self) -> str:
        """Its driver."""
        return self.id.driver


def names(candidate: Candidate, *, is_capacity: bool) -> Iterator[tuple[str, str]]:
    """Give (domain, name) of what a device publishes; bare names stand in its driver's domain."""
    device = candidate.device
    published = device.capacities if is_capacity else device.attributes
    for text, _ in published:
        domain, slash, name = text.partition("/")
        yield (domain, name) if slash else (candidate.driver, text)


def value(candidate: Candidate, read: Read) -> Value | None:
    """Look up what a read gives on a device; a fully qualified name wins, as in CEL."""
    domain = read.domain or candidate.driver
    wanted, bare = f"{domain}/{read.name}", read.name if domain == candidate.driver else None
    found: Value | None = None
    device = candidate.device
    pairs: Iterable[tuple[str, Value]] = (
        ((name, each.value) for name, each in device.capacities) if read.is_capacity else device.attributes
    )
    for name, each in pairs:
        if name == wanted:
            return each
        if name == bare:
            found = each
    return found


def values(candidates: Sequence[Candidate], read: Read) -> list[tuple[Candidate, Value]]:
    """Give what a read gives on every device that publishes it."""
    return [(each, found) for each in candidates if (found := value(each, read)) is not None]


def scalars(candidates: Sequence[Candidate], read: Read, kind: AttributeKind) -> list[str | int | bool]:
    """Give the values of a kind that devices publish under a read, each once."""
    found = [each for _, each in values(candidates, read) if isinstance(each, AttributeValue)]
    return list(dict.fromkeys(item for each in found for item_kind, item in each.items() if item_kind is kind))


def written(read: Read) -> str:
    """Write a read as an expression has it."""
    which = "capacity" if read.is_capacity else "attributes"
    domain = f'"{read.domain}"' if read.domain else "device.driver"
    return f"device.{which}[{domain}].{read.name}"


def size(nano: int) -> str:
    """Write an amount as people do: in the largest binary unit that leaves a whole number, roughly where none does."""
    if nano % (1024 * NANO) == 0:
        return format_nano(nano, "Gi")
    return f"about {nano // _MEBIBYTE}Mi" if nano >= _MEBIBYTE else format_nano(nano)


def round_size(nano: int) -> str:
    """Write the largest size in whole Gi that an amount holds, or the amount itself where it is smaller."""
    return format_nano(nano // _GIBIBYTE * _GIBIBYTE, "Gi") if nano >= _GIBIBYTE else format_nano(nano, "Gi")


def semantic(text: str) -> str:
    """Make a semantic version of a text that is nearly one: `9.0` is 9.0.0, `535.104.05` is 535.104.5."""
    numbers = text.lstrip("v").split(".")
    if not all(part.isdecimal() for part in numbers):
        return text
    return ".".join(str(int(part)) for part in [*numbers, "0", "0"][:3])


def version_key(text: str) -> tuple[int, ...] | None:
    """Order versions; None for what is none."""
    try:
        parse_semver(text)
    except Exception:  # noqa: BLE001 - the reader of versions has an error of its own, and any failure means the same
        return None
    return tuple(int(part) for part in text.partition("-")[0].partition("+")[0].split("."))
