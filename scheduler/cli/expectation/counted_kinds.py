"""What pods ask for, counted by kind: what a profile may expect of those that come (`profiles[].expectedPods`)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import yaml

import solver
from scheduler.change import Change
from scheduler.settings import untrusted_yaml
from scheduler.settings.expected_pods import ALL, MOST_DEVICES, ExpectedDevices, ExpectedPods
from scheduler.simulation import printing
from solver.domain import AllocationMode, Claim, Pod, PodId, SubRequest
from solver.domain.quantity import amount_of, plain

_MEBIBYTE: Final = 1 << 20
_BYTES: Final = ("memory", "ephemeral-storage")
_RESOURCES: Final = ("cpu", *_BYTES)
"""What kinds request: huge pages have sizes of which a mean is no multiple, and others are those of device plugins."""


class CountedKind(NamedTuple):
    """A kind of pods, how many there are, and one of them."""

    expected: ExpectedPods
    pods: int
    example: PodId


@dataclass(frozen=True, slots=True)
class Expectation:
    """
    The most frequent kinds, each with its share of all pods with devices, and how many pods with devices there are.

    `others` counts the pods of rarer kinds, `unsaid` those that cannot be expected, by the reason.
    """

    kinds: tuple[CountedKind, ...]
    pods: int
    others: int
    unsaid: Mapping[str, int]


class _Unsaid(Exception):  # noqa: N818 - no error of the pod
    """What a pod asks for cannot be written as expected."""


def of(changes: Iterable[Change], most: int) -> Expectation:
    """
    Count the pods with devices among pods and claims; `most` kinds are returned.

    Pods are of one kind if all their claims together ask for the same devices. They request the mean of what these
    pods do of each resource, bytes in whole mebibytes. Of `firstAvailable` the first alternative counts, and what
    constraints demand is not counted. A claim that several pods share counts for one of them. Pods that ask by extended
    resources count once they have the claim that a scheduler makes for these.
    """
    values = [change.value for change in changes]
    claims = {each.id: each for each in values if isinstance(each, Claim)}
    special = {each.owner_pod_uid: each.id for each in claims.values() if each.is_extended_resource_claim}
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    asked: dict[str, tuple[ExpectedDevices, ...]] = {}
    unsaid: Counter[str] = Counter()
    for pod in sorted((each for each in values if isinstance(each, Pod)), key=lambda pod: pod.id):
        ids = (*pod.claim_ids, *((special[pod.uid],) if pod.uid in special else ()))
        own = [claims.pop(each) for each in dict.fromkeys(ids) if each in claims]
        try:
            devices = _devices(own)
        except _Unsaid as reason:
            unsaid[str(reason)] += 1
            continue
        if devices:
            found[repr(devices)].append(pod)
            asked[repr(devices)] = devices
    total = sum(map(len, found.values()))
    kinds = tuple(
        CountedKind(ExpectedPods(share=share, requests=_mean(pods), devices=asked[key]), len(pods), pods[0].id)
        for key, pods in sorted(found.items(), key=lambda kind: (-len(kind[1]), kind[1][0].id))[:most]
        if (share := ALL * len(pods) // total)
    )
    return Expectation(kinds, total, total - sum(kind.pods for kind in kinds), unsaid)


def _devices(claims: Sequence[Claim]) -> tuple[ExpectedDevices, ...]:
    """Return what claims ask for together, in an order that does not depend on names. Raise `_Unsaid`."""
    if any(claim.invalid for claim in claims):
        raise _Unsaid("have a claim that cannot be read")
    asked = [request.alternatives for claim in claims for request in claim.requests]
    if not all(asked):
        raise _Unsaid("ask in a way that this version does not know")
    return tuple(sorted((_expected(alternatives[0]) for alternatives in asked), key=_order))


def _expected(asked: SubRequest) -> ExpectedDevices:
    if asked.allocation_mode != AllocationMode.EXACT_COUNT:
        raise _Unsaid("ask for all devices that match")
    if asked.admin_access:
        raise _Unsaid("ask for admin access, which takes no device")
    if asked.count > MOST_DEVICES:
        raise _Unsaid(f"ask for more than {MOST_DEVICES} devices in one request")
    for selector in asked.selectors:
        try:
            solver.compile_selector(selector)
        except solver.SelectorError as error:
            raise _Unsaid("have a selector that cannot be read") from error
    return ExpectedDevices(
        device_class_name=asked.device_class,
        count=asked.count,
        selectors=tuple(sorted(asked.selectors)),
        capacity={name: plain(amount.nano, str(amount)) for name, amount in asked.capacity_requests},
    )


def _order(each: ExpectedDevices) -> tuple[object, ...]:
    return each.device_class_name, -each.count, each.selectors, sorted(each.capacity.items())


def _mean(pods: list[Pod]) -> dict[str, str]:
    """Return the mean of what pods request of each resource."""
    totals: Counter[str] = Counter()
    for pod in pods:
        totals.update(dict(pod.requests))
    own = {name: -(-totals[name] // len(pods)) for name in _RESOURCES if totals[name]}
    return {name: amount_of(name, _whole(name, amount)) for name, amount in own.items()}


def _whole(resource: str, amount: int) -> int:
    """Round bytes up to mebibytes: the mean of several amounts is no amount that anybody would write."""
    return -(-amount // _MEBIBYTE) * _MEBIBYTE if resource in _BYTES else amount


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that a configuration would read as something else: it knows more numbers than PyYAML does."""


def _represented(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    try:
        is_plain = untrusted_yaml.load(value) == value
    except yaml.YAMLError:
        is_plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_plain else "'")


_Dumper.add_representer(str, _represented)


def text(found: Expectation) -> str:
    """Write the kinds as a profile has them, in YAML."""
    others = f", {found.others} of rarer kinds are left out" if found.others else ""
    lines = [f"# Of {printing.counted(found.pods, 'pod')} with devices{others}.", "expectedPods:"]
    for kind in found.kinds:
        body = yaml.dump([_written(kind.expected)], Dumper=_Dumper, sort_keys=False, width=printing.WIDTH)
        first, *rest = body.rstrip().splitlines()
        lines += [f"{first}  # {printing.counted(kind.pods, 'pod')}, one is {kind.example}", *rest]
    return "\n".join(lines) + "\n"


def _written(kind: ExpectedPods) -> dict[str, object]:
    """Return the fields of a kind that are not the defaults."""
    devices = [
        {
            "deviceClassName": each.device_class_name,
            **({"count": each.count} if each.count != 1 else {}),
            **({"selectors": list(each.selectors)} if each.selectors else {}),
            **({"capacity": each.capacity} if each.capacity else {}),
        }
        for each in kind.devices
    ]
    return {"share": kind.share, **({"requests": kind.requests} if kind.requests else {}), "devices": devices}
