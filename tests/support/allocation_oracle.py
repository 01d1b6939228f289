"""
The real allocator of Kubernetes next to ours: how each side is asked about one pod on one node.

The real one is the `allocate` command of the control plane's binary. Objects go to it as the API writes them, to us
through the shell's decoders, and its allocations come back the same way, so that `solver.verify` can judge them.
"""

import json
import subprocess
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from scheduler.change import Kind
from scheduler.kube.decode.objects import decode
from solver import solve
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimAllocation,
    DeviceClass,
    Node,
    Plan,
    Policy,
    ResourceSlice,
    Snapshot,
    Violation,
)
from solver.verify import check
from tests.support import builders as b
from tests.support.allocation_cases import NODE, Case, Json

T = TypeVar("T")


class Answer(NamedTuple):
    """What the real allocator said: allocations (None where it gave none), why not, and whether that was fatal."""

    allocations: tuple[Json, ...] | None
    reason: str = ""
    is_error: bool = False
    timed_out: bool = False


class Allocator:
    """The real allocator, asked one question after the other."""

    def __init__(self, binary: Path) -> None:
        self._process = subprocess.Popen(
            [binary, "allocate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, case: Case) -> Answer:
        """Ask for the pod of a case on the first node."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {
            "slices": case.slices,
            "classes": case.classes,
            "claims": case.claims,
            "node": case.nodes[0],
            "alphaFeatures": case.has_lists or case.has_groups,
        }
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        is_given = not any(key in answer for key in ("error", "infeasible", "timedOut"))
        return Answer(
            tuple(answer.get("allocations", ())) if is_given else None,
            answer.get("error", "") or answer.get("reason", ""),
            is_error="error" in answer,
            timed_out="timedOut" in answer,
        )

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


class Question(NamedTuple):
    """A case as the solver sees it."""

    snapshot: Snapshot
    batch: Batch


def question_of(case: Case) -> Question:
    """Decode a case; its pod may run on the first node alone."""
    snapshot = b.snapshot(
        (_ready(decode(Kind.NODES, msgspec.json.encode(each))) for each in case.nodes),
        (_as(ResourceSlice, decode(Kind.SLICES, msgspec.json.encode(each))) for each in case.slices),
        (_as(DeviceClass, decode(Kind.CLASSES, msgspec.json.encode(each))) for each in case.classes),
        (_claim(each) for each in case.claims),
    )
    names = (each["metadata"]["name"] for each in case.wanted)
    pod = b.pod("p", *names, affinity=b.on_node(NODE))
    return Question(snapshot, b.batch(pod))


def ours(question: Question) -> Plan:
    """Ask our side; the plan verifies, or this fails."""
    budget = Budget(seconds=60.0, deterministic_seconds=10.0)
    plan = solve(question.snapshot, question.batch, Policy(), budget)
    violations = check(question.snapshot, question.batch, plan)
    assert violations == (), violations
    return plan


def judged(case: Case, question: Question, allocations: tuple[Json, ...]) -> tuple[Violation, ...]:
    """Judge what the real allocator gave by our checker."""
    (pod,) = question.batch.pods
    given = []
    for wanted, allocation in zip(case.wanted, allocations, strict=True):
        made = _claim({**wanted, "status": {"allocation": allocation}})
        assert made.allocation is not None, made.invalid
        given.append(ClaimAllocation(claim=made.id, claim_uid=made.uid, allocation=made.allocation))
    return check(question.snapshot, question.batch, b.plan(b.placement(pod, NODE), *given))


def ranks_of_plan(case: Case, plan: Plan) -> int:
    """Sum the positions of the alternatives that we chose."""
    named = {each.claim.name: [result.request for result in each.allocation.results] for each in plan.allocations}
    return sum(_ranks(each, named[each["metadata"]["name"]]) for each in case.wanted)


def ranks_given(case: Case, allocations: tuple[Json, ...]) -> int:
    """Sum the positions of the alternatives that the real allocator chose."""
    return sum(
        _ranks(wanted, [each["request"] for each in given["devices"].get("results", ())])
        for wanted, given in zip(case.wanted, allocations, strict=True)
    )


def _ranks(claim: Json, names: list[str]) -> int:
    positions = {
        f"{request['name']}/{each['name']}": position
        for request in claim["spec"]["devices"]["requests"]
        for position, each in enumerate(request.get("firstAvailable", ()))
    }
    return sum(positions.get(name, 0) for name in set(names))


def _claim(raw: Json) -> Claim:
    claim = _as(Claim, decode(Kind.CLAIMS, msgspec.json.encode(raw)))
    assert not claim.invalid, claim.invalid
    return claim


def _ready(node: object) -> Node:
    return msgspec.structs.replace(_as(Node, node), allocatable=(("cpu", 64000), ("pods", 110)))


def _as(kind: type[T], value: object) -> T:
    assert isinstance(value, kind), value
    return value
