"""
Guarantees and shares by trying everything, on clusters of equal devices: small ones, made of a seed.

Written from the definitions: pods within guarantees count first at each priority, then all pods, then the devices
beyond shares. Targets are found by bisection of the water level, not by the solver's filling.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import floor
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import DeviceQuota, Plan, Pod
from tests.support import builders as b
from tests.support.quota_cases import TEAMS, devices, namespaces, quota
from tests.support.strategies import Situation

Value = tuple[int, ...]


class Fleet(NamedTuple):
    """A situation, with what each node has free, what each team holds, and what each pod asks for."""

    situation: Situation
    free: tuple[int, ...]
    held: Mapping[str, int]
    asks: Mapping[str, int]


def generated(seed: int) -> Fleet:
    """Make up to three nodes of equal devices, up to six pods of one to three devices, and quotas with guarantees."""
    rng = Random(seed)  # noqa: S311 - reproducible, no secret
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
    fleet = [(b.node(f"n{i}", cpu=64, pods=64), b.gpu_slice(f"n{i}", count=size)) for i, size in enumerate(sizes)]
    free, held, claims = list(sizes), Counter[str](), []
    for index in range(rng.randint(0, 3)):
        node, team = rng.randrange(len(sizes)), rng.choice(TEAMS)
        if free[node]:
            free[node] -= 1
            held[team] += 1
            result = b.result("r", f"gpu-{free[node]}", f"n{node}")
            claims.append(b.held(f"held-{index}", result, node_name=f"n{node}", namespace=team))
    asks = {f"p{index}": rng.choice((1, 1, 1, 2, 2, 3)) for index in range(rng.randint(2, 6))}
    pods = []
    for name, count in asks.items():
        team = rng.choice(TEAMS)
        claims.append(b.claim(name, b.request("r", count=count), namespace=team))
        pods.append(b.pod(name, name, namespace=team, priority=rng.choice((0, 0, 0, 1))))
    total = sum(sizes)
    quotas = [
        quota(
            team,
            devices(
                rng.choice((None, None, rng.randint(1, total))),
                guarantee=rng.randint(0, 3),
                weight=rng.randint(1, 3),
            ),
            parent=rng.choice(("", "root")),
            team=team,
        )
        for team in TEAMS
    ]
    quotas = [_sound(each) for each in quotas]
    if rng.random() < 0.7:
        quotas.append(quota("root", devices(rng.choice((None, rng.randint(1, total))), guarantee=rng.randint(0, 3))))
    snapshot = b.snapshot([each for pair in fleet for each in pair], b.gpu_class(), namespaces(), claims)
    snapshot = replace(snapshot, quotas=tuple(sorted((_sound(each) for each in quotas), key=lambda each: each.name)))
    batch = b.batch(*sorted(pods, key=lambda pod: -pod.priority))
    return Fleet(Situation(snapshot, batch), tuple(free), held, asks)


def _sound(made: DeviceQuota) -> DeviceQuota:
    """Cut a guarantee to the limit, as the API server demands."""
    (resource,) = made.resources
    most = resource.guarantee if resource.limit is None else min(resource.guarantee, resource.limit)
    return replace(made, resources=(replace(resource, guarantee=most),))


def best(fleet: Fleet) -> Value:
    """Return the best value over all ways to place pods."""
    pods = fleet.situation.batch.pods
    found: Value | None = None
    for choice in product(range(-1, len(fleet.free)), repeat=len(pods)):
        value = worth(fleet, {pod.id.name: node for pod, node in zip(pods, choice, strict=True) if node >= 0})
        if value is not None and (found is None or value > found):
            found = value
    assert found is not None
    return found


def placed_by(plan: Plan) -> dict[str, int]:
    """Return the nodes of a plan by pod."""
    return {each.pod.name: int(each.node[1:]) for each in plan.placements}


def worth(fleet: Fleet, placed: Mapping[str, int]) -> Value | None:
    """Return what a way is worth, level by level; None where it breaks a rule."""
    snapshot, batch = fleet.situation
    used = Counter[int]()
    added = Counter[str]()
    for pod in batch.pods:
        if pod.id.name in placed:
            used[placed[pod.id.name]] += fleet.asks[pod.id.name]
            added[pod.id.namespace] += fleet.asks[pod.id.name]
    if any(count > fleet.free[node] for node, count in used.items()):
        return None
    quotas = {each.name: each for each in snapshot.quotas}
    for name, each in quotas.items():
        teams = _teams(quotas, name)
        limit, more = each.resources[0].limit, sum(added[team] for team in teams)
        if limit is not None and more and sum(fleet.held.get(team, 0) for team in teams) + more > limit:
            return None
    value: list[int] = []
    for priority in sorted({pod.priority for pod in batch.pods}, reverse=True):
        there = [pod for pod in batch.pods if pod.priority == priority and pod.id.name in placed]
        value += (there and [_within(fleet, quotas, batch.pods, placed, priority)]) or [0]
        value.append(len(there))
    return (*value, -_beyond(fleet, quotas, added))


def _teams(quotas: Mapping[str, DeviceQuota], name: str) -> list[str]:
    return [team for team in TEAMS if team in quotas and name in {team, quotas[team].parent}]


def _within(
    fleet: Fleet, quotas: Mapping[str, DeviceQuota], pods: Sequence[Pod], placed: Mapping[str, int], priority: int
) -> int:
    """
    Count the pods of a priority that fit in guarantees, pods of a higher priority first; the best of all ways.

    A pod counts within the guarantee of its team, or within what that of the root is beyond those of the teams, of
    which the teams hold what they hold beyond theirs. All ways to count each pod of each priority are tried.
    """
    left = {
        team: quotas[team].resources[0].guarantee - fleet.held.get(team, 0) if team in quotas else 0 for team in TEAMS
    }
    below = [team for team in TEAMS if team in quotas and quotas[team].parent in quotas]
    own = {team: quotas[team].resources[0].guarantee for team in below}
    root = quotas["root"].resources[0].guarantee if "root" in quotas else 0
    rest = max(root, sum(own.values())) - sum(own.values()) if root else 0
    rest -= sum(max(0, fleet.held.get(team, 0) - own[team]) for team in below) if rest > 0 else 0
    tiers = [
        [(pod.id.namespace, fleet.asks[pod.id.name]) for pod in pods if pod.priority == tier and pod.id.name in placed]
        for tier in sorted({pod.priority for pod in pods if pod.priority >= priority}, reverse=True)
    ]
    return _most(tiers, tuple(left[team] for team in TEAMS), rest, frozenset(below))[-1]


def _most(
    tiers: Sequence[Sequence[tuple[str, int]]], left: tuple[int, ...], rest: int, below: frozenset[str]
) -> tuple[int, ...]:
    """Return how many pods of each tier count at most, the first tier before all others."""
    best: tuple[int, ...] = ()
    for choice in product((0, 1, 2), repeat=len(tiers[0])):
        room, spare = dict(zip(TEAMS, left, strict=True)), rest
        for (team, asked), way in zip(tiers[0], choice, strict=True):
            room[team] -= asked if way == 1 else 0
            spare -= asked if way == 2 and team in below else 0
            spare -= 1 << 30 if way == 2 and team not in below else 0
        # What is over already gives nobody anything; nobody may take more of it.
        if any(room[team] < min(0, before) for team, before in zip(TEAMS, left, strict=True)) or spare < min(0, rest):
            continue
        counted = sum(way > 0 for way in choice)
        if any(
            way and not _may(way, team, left, rest, asked) for (team, asked), way in zip(tiers[0], choice, strict=True)
        ):
            continue
        more = _most(tiers[1:], tuple(room[team] for team in TEAMS), spare, below) if tiers[1:] else ()
        best = max(best, (counted, *more))
    return best


def _may(way: int, team: str, left: tuple[int, ...], rest: int, asked: int) -> bool:
    """Whether a way has room for a pod at all."""
    return asked <= (left[TEAMS.index(team)] if way == 1 else rest)


def _beyond(fleet: Fleet, quotas: Mapping[str, DeviceQuota], added: Mapping[str, int]) -> int:
    """Add up what teams would hold beyond their shares."""
    asked, largest = Counter[str](), max(len(each.devices) for each in fleet.situation.snapshot.slices)
    for pod in fleet.situation.batch.pods:
        if fleet.asks[pod.id.name] <= largest:  # what no node has is asked for in vain
            asked[pod.id.namespace] += fleet.asks[pod.id.name]
    wanted = {team: fleet.held.get(team, 0) + asked[team] for team in TEAMS if team in quotas}
    total = sum(len(each.devices) for each in fleet.situation.snapshot.slices)
    total -= sum(count for team, count in fleet.held.items() if team not in quotas)
    found = _targets(quotas, wanted, Fraction(total))
    return sum(
        max(0, added[team] - max(0, floor(found[team]) - fleet.held.get(team, 0))) for team in wanted if asked[team]
    )


def _targets(quotas: Mapping[str, DeviceQuota], wanted: Mapping[str, int], total: Fraction) -> dict[str, Fraction]:
    below: defaultdict[str, list[str]] = defaultdict(list)
    for name, each in quotas.items():
        below[each.parent if each.parent in quotas else ""].append(name)

    def asks(name: str) -> int:
        return wanted.get(name, 0) + sum(asks(each) for each in below[name])

    def guaranteed(name: str) -> int:
        return max(quotas[name].resources[0].guarantee, sum(guaranteed(each) for each in below[name]))

    found: dict[str, Fraction] = {}

    def divide(names: Sequence[str], amount: Fraction) -> None:
        kept = [name for name in names if asks(name)]
        most = {name: min(asks(name), _limit(quotas[name], asks(name))) for name in kept}
        least = {name: min(guaranteed(name), most[name]) for name in kept}
        if sum(least.values()) >= amount:
            scale = amount / sum(least.values()) if sum(least.values()) else Fraction(0)
            given = {name: least[name] * scale for name in kept}
        else:
            given = _filled(most, least, {name: quotas[name].resources[0].weight for name in kept}, amount)
        for name in kept:
            found[name] = given[name]
            divide(below[name], given[name])

    divide(below[""], total)
    return {team: found.get(team, Fraction(0)) for team in wanted}


def _limit(each: DeviceQuota, otherwise: int) -> int:
    limit = each.resources[0].limit
    return otherwise if limit is None else limit


def _filled(
    most: Mapping[str, int], least: Mapping[str, int], weights: Mapping[str, int], amount: Fraction
) -> dict[str, Fraction]:
    """Find the level at which all is given away: it is at one of the places where somebody has enough, or between."""

    def at(level: Fraction) -> dict[str, Fraction]:
        return {name: min(Fraction(most[name]), least[name] + level * weights[name]) for name in most}

    if sum(most.values()) <= amount:
        return {name: Fraction(each) for name, each in most.items()}
    levels = sorted({Fraction(most[name] - least[name], weights[name]) for name in most})
    low = Fraction(0)
    for high in levels:
        if sum(at(high).values()) >= amount:
            rising = sum(weights[name] for name in most if Fraction(most[name] - least[name], weights[name]) > low)
            return at(low + (amount - sum(at(low).values())) / rising)
        low = high
    return at(low)
