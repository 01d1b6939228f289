"""The pods that a profile expects (`profiles[].expectedPods`), and the errors of what is written there."""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

import solver
from scheduler.settings.policies import Section
from solver.domain import ExpectedPod, QuantityError, Request, SubRequest
from solver.domain.quantity import Quantity, parse, unit_of

ALL: Final = 1000
"""The share of all pods."""
MOST_DEVICES: Final = 32
"""The most devices of a request, as in a ResourceClaim."""
Share = Annotated[int, Meta(ge=1, le=ALL)]
DeviceCount = Annotated[int, Meta(ge=1, le=MOST_DEVICES)]
MOST_KINDS: Final = 32
"""The most kinds of a profile: each is looked at on each node."""


class ExpectedDevices(Section, frozen=True):
    """A request for devices, with the fields of `exactly` in a ResourceClaim."""

    device_class_name: str = ""
    """The DeviceClass."""

    count: DeviceCount = 1
    """How many devices one pod gets."""

    selectors: tuple[str, ...] = ()
    """CEL expressions, as in `selectors[].cel.expression`."""

    capacity: dict[str, str] = msgspec.field(default_factory=dict)
    """What one pod takes of a device that pods share, as in `capacity.requests`."""

    def solver_value(self) -> SubRequest:
        """Return what the solver reads; the values have no errors."""
        return SubRequest(
            device_class=self.device_class_name,
            count=self.count,
            selectors=self.selectors,
            capacity_requests=tuple((name, parse(text)) for name, text in sorted(self.capacity.items())),
        )


class ExpectedPods(Section, frozen=True):
    """Pods of one kind: how many of a thousand, and what each asks for."""

    share: Share = 1000
    """How many of a thousand pods with devices are of this kind."""

    requests: dict[str, str] = msgspec.field(default_factory=dict)
    """What a pod requests of its node, such as cpu and memory."""

    devices: tuple[ExpectedDevices, ...] = ()
    """The requests for devices of all its claims."""

    def solver_value(self) -> ExpectedPod:
        """Return what the solver reads; the values have no errors."""
        return ExpectedPod(
            share=self.share,
            requests=tuple(
                (name, -(-parse(amount).nano // unit_of(name))) for name, amount in sorted(self.requests.items())
            ),
            device_requests=tuple(
                Request(name=f"devices-{number}", alternatives=(each.solver_value(),))
                for number, each in enumerate(self.devices)
            ),
        )


def errors(kinds: tuple[ExpectedPods, ...], path: str) -> Iterator[str]:
    """Find what a ResourceClaim or a pod could not ask for."""
    if len(kinds) > MOST_KINDS:
        yield f"{path}: {len(kinds)} kinds are too many, write the {MOST_KINDS} most frequent ones"
        return
    total = sum(kind.share for kind in kinds)
    if total > ALL:
        yield f"{path}: the shares come to {total}, write at most {ALL} together"
    for number, kind in enumerate(kinds):
        place = f"{path}[{number}]"
        yield from _amounts(kind.requests, f"{place}.requests")
        if not kind.devices:
            yield f"{place}.devices: is empty, write what these pods ask for: only pods with devices are expected"
        for position, each in enumerate(kind.devices):
            yield from _devices(each, f"{place}.devices[{position}]")


def _devices(each: ExpectedDevices, place: str) -> Iterator[str]:
    if not each.device_class_name:
        yield f"{place}.deviceClassName: is empty, write the name of a DeviceClass"
    yield from _amounts(each.capacity, f"{place}.capacity")
    for number, text in enumerate(each.selectors):
        try:
            solver.compile_selector(text)  # imports the compiler, which most configurations do not need
        except solver.SelectorError as error:
            yield f"{place}.selectors[{number}]: {error}"


def _amounts(amounts: dict[str, str], place: str) -> Iterator[str]:
    for name, text in amounts.items():
        try:
            found: Quantity | None = parse(text)
        except QuantityError:
            found = None
        if found is None or found.nano < 0:
            yield f"{place}.{name}: {text!r} is no amount, write one such as 500m, 8 or 16Gi"
