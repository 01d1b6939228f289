"""
`make measure ARGS="tenants"`: what quotas cost a decision, and what reclaim takes.

    make measure ARGS="tenants"                        # all of it, five turns
    make measure ARGS="tenants --only gangs --turns 1"

The cases of one question take turns in this process, and processor time counts: other work on the machine changes it
little. A reclaim is decided until no pod is left for a later decision, as the scheduler does. Its bound follows from
the devices that are asked for: where each victim holds one, no plan evicts fewer pods than devices are missing.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from e2e import plots
from e2e.arguments import at_least_one
from e2e.bench import asks, clusters
from e2e.bench.clusters import Share
from e2e.bench.measure import PATIENCE_SECONDS
from solver import SolverCache, solve, verify
from solver.domain import (
    FINALIZER,
    Batch,
    Budget,
    Claim,
    ClaimId,
    DeviceQuota,
    Gang,
    GangId,
    LabelRequirement,
    LabelSelector,
    Namespace,
    Plan,
    Pod,
    PodId,
    Policy,
    PreemptionRules,
    QuotaResource,
    ReasonCode,
    Snapshot,
)
from solver.preemption.what_if import after_plan

PODS, TEAMS, DIVISIONS = 5000, 180, 19
"""Pods of a decision; a tree of 200 quotas with a root, divisions below it, and teams below these."""
MORE: Final = 360
"""Pods that find no device, or that limits keep back."""
GANGS, MEMBERS, NODES = 50, 8, 500
_NOW: Final = 1_800_000_000
_TEAM: Final = "team"
_DEVICES: Final = 8
_RULES: Final = PreemptionRules(
    is_enabled=True, frees_devices=True, scheduler_names=("dovetail",), now=_NOW, reclaims=True
)
"""Nothing protects a pod, and there is no bound on evictions."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """
    One case in one turn: seconds of the processor and of the clock over all of its decisions.

    `served` are pods with a place or with room that victims leave, `evicted` these victims, `bound` the least number of
    victims that any plan has. `findings` are rules that a plan breaks.
    """

    case: str
    cpu: float
    wall: float
    decisions: int
    served: int
    evicted: int = 0
    bound: int = 0
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TenantCase:
    """A cluster and pods that wait; `bound` is the least number of victims that serves all of them."""

    snapshot: Snapshot
    batch: Batch
    policy: Policy
    bound: int = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 where a plan breaks a rule, or a pod of a reclaim gets no room."""
    options = _parser().parse_args(arguments)
    found: list[Decided] = []
    for name in options.only or QUESTIONS:
        cases = QUESTIONS[name]()
        caches = {case: SolverCache() for case in cases}
        for turn in range(-1, options.turns):  # the first one reads the cluster, and does not count
            for label, case in cases.items():
                print(f"{name}, {label}, turn {turn + 1} of {options.turns}", file=sys.stderr)
                measured = decide(f"{name}: {label}", case, caches[label])
                found += [measured] if turn >= 0 else []
    record: Path = options.json or plots.record_path("tenants")
    record.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    Console(width=110).print(render(found))
    problems = sorted({f"{each.case}: {finding}" for each in found for finding in each.findings})
    print("\n".join(problems), file=sys.stderr)
    return int(bool(problems))


def decide(name: str, case: TenantCase, cache: SolverCache) -> Decided:
    """Decide until nothing is left for later; each decision sees the room and the victims of those before."""
    snapshot, batch, plans = case.snapshot, case.batch, list[Plan]()
    findings: list[str] = []
    cpu, wall = 0.0, 0.0
    while batch.pods and (not plans or plans[-1].preemptions):
        budget = Budget(seconds=PATIENCE_SECONDS, deterministic_seconds=4.0)
        started = time.process_time(), time.perf_counter()
        plan = solve(snapshot, batch, case.policy, budget, cache)
        cpu, wall = cpu + time.process_time() - started[0], wall + time.perf_counter() - started[1]
        findings += (
            f"{each.rule}: {each.subject}: {each.message}" for each in verify.check(snapshot, batch, plan, case.policy)
        )
        plans.append(plan)
        later = {each.pod for each in plan.unplaced if any(why.code is ReasonCode.BUDGET for why in each.reasons)}
        pods = tuple(pod for pod in batch.pods if pod.id in later)
        snapshot, batch = after_plan(snapshot, batch, plan), replace(batch, pods=pods, gangs=batch.gangs_of(pods))
    served = sum(len(plan.placements) for plan in plans)
    served += sum(len(each.placements) for plan in plans for each in plan.preemptions)
    evicted = {victim.pod for plan in plans for each in plan.preemptions for victim in each.victims}
    if case.bound and served < len(case.batch.pods):
        findings.append(f"{len(case.batch.pods) - served} pods get no room")
    return Decided(
        case=name,
        cpu=cpu,
        wall=wall,
        decisions=len(plans),
        served=served,
        evicted=len(evicted),
        bound=case.bound,
        findings=tuple(findings),
    )


def enough() -> dict[str, TenantCase]:
    """Make a batch for which limits leave enough, and the same without quotas."""
    case = _teams(_cluster(PODS // _DEVICES), most=PODS)
    return {"no quotas": _without_quotas(case), f"{len(case.snapshot.quotas)} quotas": case}


def bound() -> dict[str, TenantCase]:
    """Make a batch of which limits keep some pods back; without quotas as many find no device."""
    scarce = _teams(_cluster((PODS - MORE) // _DEVICES), most=PODS)
    case = _teams(_cluster(PODS // _DEVICES), most=PODS - MORE)
    return {"no quotas, too few devices": _without_quotas(scarce), f"{len(case.snapshot.quotas)} quotas": case}


def one() -> dict[str, TenantCase]:
    """Make one pod within a guarantee, where another team holds all devices."""
    return {f"one GPU of {NODES * _DEVICES}": _reclaim(gangs=0, pods=1)}


def gangs() -> dict[str, TenantCase]:
    """Make gangs within a guarantee, where another team holds all devices."""
    return {f"{GANGS} gangs of {MEMBERS}": _reclaim(gangs=GANGS, pods=GANGS * MEMBERS)}


QUESTIONS: Final[dict[str, Callable[[], dict[str, TenantCase]]]] = {
    "enough": enough,
    "bound": bound,
    "one": one,
    "gangs": gangs,
}


def render(found: Sequence[Decided]) -> Table:
    """Lay the medians of all turns out; a case is compared with the first of its question."""
    table = Table(box=None)
    for column in ("case", "CPU s", "wall s", "of the first", "decisions", "served", "evicted", "at least"):
        table.add_column(column, justify="left" if column == "case" else "right")
    first: dict[str, float] = {}
    for name in dict.fromkeys(each.case for each in found):
        turns = [each for each in found if each.case == name]
        cpu = statistics.median(each.cpu for each in turns)
        base = first.setdefault(name.partition(":")[0], cpu)
        wall = statistics.median(each.wall for each in turns)
        counts = turns[-1].decisions, turns[-1].served, turns[-1].evicted, turns[-1].bound
        table.add_row(name, f"{cpu:.2f}", f"{wall:.2f}", f"{cpu / base:.2f}", *map(str, counts))
    return table


def _cluster(nodes: int) -> Snapshot:
    return clusters.cluster(nodes, Share(100, clusters.h100_alone))


def _teams(snapshot: Snapshot, *, most: int) -> TenantCase:
    """Make pods of all teams, in turns, whose limits add up to `most`; the levels above leave enough."""
    asked, claims = asks.waiting([asks.gpus(1)] * PODS, [0] * PODS)
    pods = [_moved(pod, _team(index % TEAMS)) for index, pod in enumerate(asked)]
    waiting = clusters.waiting(snapshot, (_with_owner(claim, pods[index]) for index, claim in enumerate(claims)))
    quotas = [_quota("company", limit=PODS)]
    quotas += (_quota(f"division-{index:02}", limit=PODS, parent="company") for index in range(DIVISIONS))
    quotas += (
        _quota(
            _team(index),
            limit=most // TEAMS + (index < most % TEAMS),
            parent=f"division-{index % DIVISIONS:02}",
            team=_team(index),
        )
        for index in range(TEAMS)
    )
    spaces = tuple(_namespace(_team(index)) for index in range(TEAMS))
    there = replace(waiting, namespaces=spaces, quotas=tuple(sorted(quotas, key=lambda each: each.name)))
    return TenantCase(there, Batch(pods=tuple(pods)), Policy())


def _without_quotas(case: TenantCase) -> TenantCase:
    return TenantCase(replace(case.snapshot, quotas=()), case.batch, case.policy)


def _reclaim(*, gangs: int, pods: int) -> TenantCase:
    """Make a fleet that one team holds with pods of one device, and pods of a team that is guaranteed as many."""
    chance = Random(0)  # noqa: S311 - reproducible, no secret
    held = clusters.in_use(_cluster(NODES), (0,), chance)
    lender = {
        claim.id: _with_owner(claim, _moved(pod, "lender")) for claim, pod in zip(held.claims, held.pods, strict=True)
    }
    running = [replace(_moved(pod, "lender"), started=_NOW - chance.randint(60, 86_400)) for pod in held.pods]
    snapshot = replace(held, claims=tuple(lender.values()), pods=tuple(running))
    asked, claims = asks.waiting([asks.gpus(1)] * pods, [0] * pods)
    waiting = [_moved(pod, "owner") for pod in asked]
    named = [GangId("owner", f"gang-{index:02}", "scheduling.k8s.io") for index in range(gangs)]
    if gangs:
        waiting = [replace(pod, gang=named[index // MEMBERS]) for index, pod in enumerate(waiting)]
    snapshot = clusters.waiting(snapshot, (_with_owner(claim, pod) for claim, pod in zip(claims, waiting, strict=True)))
    quotas = _quota("lender", team="lender"), _quota("owner", guarantee=pods, team="owner")
    snapshot = replace(snapshot, namespaces=(_namespace("lender"), _namespace("owner")), quotas=quotas)
    batch = Batch(pods=tuple(waiting), gangs=tuple(Gang(id=each, min_count=MEMBERS) for each in named))
    return TenantCase(snapshot, batch, Policy(preemption=_RULES), bound=pods)


def _team(index: int) -> str:
    return f"team-{index:03}"


def _namespace(team: str) -> Namespace:
    return Namespace(name=team, labels=((_TEAM, team),))


def _quota(name: str, *, limit: int | None = None, guarantee: int = 0, parent: str = "", team: str = "") -> DeviceQuota:
    requirement = LabelRequirement(key=_TEAM, operator="In", values=(team,))
    resource = QuotaResource(device_class=asks.GPU_CLASS, limit=limit, guarantee=guarantee)
    selector = LabelSelector(requirements=(requirement,)) if team else None
    return DeviceQuota(name=name, uid=f"uid-{name}", parent=parent, selector=selector, resources=(resource,))


def _moved(pod: Pod, namespace: str) -> Pod:
    """Put a pod with one claim into another namespace."""
    claims = tuple(replace(each, claim=ClaimId(namespace, pod.claim_ids[0].name)) for each in pod.claims)
    return replace(pod, id=PodId(namespace, pod.id.name), claims=claims)


def _with_owner(claim: Claim, pod: Pod) -> Claim:
    """Put a claim into the namespace of its pod; the claim controller may free it."""
    return replace(claim, id=ClaimId(pod.id.namespace, claim.id.name), finalizers=(FINALIZER,))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure tenants", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=list(QUESTIONS), help="only this question; repeatable")
    parser.add_argument("--turns", type=at_least_one, default=5, metavar="N", help="turns of each case (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured (results/tenants-TIME.json)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
