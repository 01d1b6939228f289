"""
RepairPlans (dovetail.dev/v1alpha1): the moves of a repair as an object, what people decide about it, and its state.

Moves never change once they are written; `spec.decision` is people's (or `repair.autoApprove`), the status is the
leader's. The whole plan of the solver is in `spec.plan` (JSON, compressed, base64), because the checker judges it
again before each step.
"""

import base64
import datetime as dt
import hashlib
import zlib
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import msgspec

from scheduler.kube import encode
from scheduler.kube.client import JSON_PATCH, MERGE_PATCH, Client
from scheduler.kube.errors import Conflict, DecodeError
from scheduler.kube.writes import WRITE_SECONDS, delete_object
from solver.domain import PodId, Relocation, RepairGoal

API_VERSION: Final = "dovetail.dev/v1alpha1"
KIND: Final = "RepairPlan"
COLLECTION: Final = "/apis/dovetail.dev/v1alpha1/repairplans"
_NAME_DIGITS: Final = 10


class PlanDecision(StrEnum):
    """What is decided about a plan; `OPEN` where nobody has."""

    OPEN = ""
    APPROVED = "Approved"
    PAUSED = "Paused"
    CANCELLED = "Cancelled"


class PlanState(StrEnum):
    """How far a plan is."""

    PROPOSED = "Proposed"
    RUNNING = "Running"
    PAUSED = "Paused"
    DONE = "Done"
    STOPPED = "Stopped"
    """It ended before all moves were made; `message` says why. What was moved stays where it is."""
    CANCELLED = "Cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing happens any more."""
        return self in {PlanState.DONE, PlanState.STOPPED, PlanState.CANCELLED}


class MoveState(StrEnum):
    """How far a move is; a move that has none yet was not begun."""

    NONE = ""
    EVICTING = "Evicting"
    """Its room is held, and the eviction may have been sent."""
    MOVED = "Moved"
    """The successor is bound."""
    FAILED = "Failed"


class _Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class PlannedMove(_Struct, frozen=True, kw_only=True):
    """One move as people read it; `to` is empty where a spare member takes the place."""

    step: int
    namespace: str
    name: str
    uid: str
    controller_uid: str = msgspec.field(default="", name="controllerUID")
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(default="", name="to")
    devices: tuple[str, ...] = ()

    @property
    def pod(self) -> PodId:
        """The key of the pod."""
        return PodId(self.namespace, self.name)


class MoveProgress(_Struct, frozen=True, kw_only=True):
    """
    What became of a move (`uid` of its pod); `time` is when it was begun, RFC 3339.

    `place` is the held place of the successor (`dovetail.dev/place` of the pod that uses it), empty where none is held.
    """

    uid: str
    state: MoveState
    time: str
    place: str = ""
    successor: str = ""
    successor_uid: str = msgspec.field(default="", name="successorUID")
    message: str = ""


class PlanGoal(_Struct, frozen=True, kw_only=True):
    """Why pods move."""

    kind: str
    subject: str
    value: str = ""


class PlanSpec(_Struct, frozen=True, kw_only=True):
    """`least` is the proven bound of the number of moves; `proven` says that the moves reach it."""

    goal: PlanGoal
    moves: tuple[PlannedMove, ...]
    least: int = 0
    proven: bool = False
    lost_seconds: int = 0
    decision: PlanDecision = PlanDecision.OPEN
    decided_by: str = ""
    plan: str = ""


class PlanStatus(_Struct, frozen=True, kw_only=True):
    """`since` is the time of the last change of the state."""

    state: PlanState = PlanState.PROPOSED
    message: str = ""
    since: str = ""
    moves: tuple[MoveProgress, ...] = ()


class PlanMetadata(_Struct, frozen=True, kw_only=True):
    """What is read of the metadata."""

    name: str
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""


class RepairPlan(_Struct, frozen=True, kw_only=True, dict=True):
    """A RepairPlan."""

    metadata: PlanMetadata
    spec: PlanSpec
    status: PlanStatus = PlanStatus()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def created(self) -> float:
        """Its creation in seconds since the epoch."""
        return seconds_of(self.metadata.creation_timestamp)

    @property
    def is_open(self) -> bool:
        """Whether it may still move pods."""
        return not self.status.state.is_final

    @property
    def on_the_way(self) -> int:
        """How many pods have been evicted whose successors are not bound yet."""
        return sum(each.state is MoveState.EVICTING for each in self.status.moves)

    @cached_property
    def _progress(self) -> dict[str, MoveProgress]:
        return {each.uid: each for each in self.status.moves}

    def progress(self, uid: str) -> MoveProgress | None:
        """Return what became of the move of a pod."""
        return self._progress.get(uid)

    def solved(self) -> "SolvedPlan":
        """Return the solver's plan. Raises `DecodeError`."""
        try:
            return msgspec.json.decode(zlib.decompress(base64.b64decode(self.spec.plan)), type=SolvedPlan)
        except (msgspec.DecodeError, ValueError, zlib.error) as error:
            raise DecodeError(KIND, self.name, "spec.plan", str(error)) from error


class SolvedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What `spec.plan` holds."""

    goal: RepairGoal
    found: Relocation


class _List(msgspec.Struct, frozen=True):
    items: tuple[RepairPlan, ...] = ()


_list = msgspec.json.Decoder(_List)
_plan = msgspec.json.Decoder(RepairPlan)


def seconds_of(timestamp: str) -> float:
    """Return an RFC 3339 time as seconds since the epoch, 0 for what is none."""
    try:
        return dt.datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0


def now_text(now: float) -> str:
    """Write seconds since the epoch as the API does."""
    return encode.timestamp(dt.datetime.fromtimestamp(now, dt.UTC))


def spec_of(goal: RepairGoal, found: Relocation, controllers: dict[str, str]) -> PlanSpec:
    """Return the spec of a plan; `controllers` are the uids of controllers by those of pods."""
    moves = tuple(
        PlannedMove(
            step=move.step,
            namespace=move.pod.namespace,
            name=move.pod.name,
            uid=move.pod_uid,
            controller_uid=controllers.get(move.pod_uid, ""),
            source=move.source,
            target=move.target,
            devices=tuple(str(result.device) for _, allocation in move.allocations for result in allocation.results),
        )
        for move in found.moves
    )
    return PlanSpec(
        goal=PlanGoal(kind=goal.kind, subject=goal.subject, value=goal.value),
        moves=moves,
        least=found.least,
        proven=found.is_proven,
        lost_seconds=found.harm.lost_seconds,
        plan=base64.b64encode(zlib.compress(msgspec.json.encode(SolvedPlan(goal=goal, found=found)))).decode(),
    )


def name_of(spec: PlanSpec) -> str:
    """Name a plan by what it does, so that two leaders give the same plan one name."""
    text = msgspec.json.encode((spec.goal, spec.moves))
    return f"repair-{spec.goal.kind.lower()}-{hashlib.sha256(text).hexdigest()[:_NAME_DIGITS]}"


async def list_plans(client: Client, *, timeout_seconds: float = WRITE_SECONDS) -> tuple[RepairPlan, ...]:
    """List all plans, by name. Raises `DecodeError`, and `NotFound` where the server does not serve them."""
    body = await client.request("GET", COLLECTION, timeout_seconds=timeout_seconds)
    try:
        return tuple(sorted(_list.decode(body).items, key=lambda plan: plan.name))
    except msgspec.DecodeError as error:
        raise DecodeError("RepairPlanList", "", "items", str(error)) from error


async def read_plan(client: Client, name: str, *, timeout_seconds: float = WRITE_SECONDS) -> RepairPlan:
    """Read one plan."""
    return decoded_plan(await client.request("GET", f"{COLLECTION}/{name}", timeout_seconds=timeout_seconds))


def decoded_plan(body: bytes) -> RepairPlan:
    """Decode a plan. Raises `DecodeError`."""
    try:
        return _plan.decode(body)
    except msgspec.DecodeError as error:
        raise DecodeError(KIND, "", "", str(error)) from error


async def create_plan(client: Client, spec: PlanSpec, *, timeout_seconds: float = WRITE_SECONDS) -> RepairPlan | None:
    """Create a plan; None where it is there already."""
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name_of(spec)}, "spec": spec}
    try:
        answer = await client.request(
            "POST", COLLECTION, body=msgspec.json.encode(body), timeout_seconds=timeout_seconds
        )
    except Conflict:
        return None
    return decoded_plan(answer)


async def write_status(
    client: Client, plan: RepairPlan, status: PlanStatus, *, timeout_seconds: float = WRITE_SECONDS
) -> RepairPlan:
    """
    Replace the status of a plan; guarded by its resourceVersion and uid.

    Raises `Conflict` where the plan has changed: its reader decides anew.
    """
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": plan.metadata.uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": plan.metadata.resource_version},
        {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)},
    ]
    path = f"{COLLECTION}/{plan.name}/status"
    body = msgspec.json.encode(patch)
    return decoded_plan(
        await client.request("PATCH", path, body=body, content_type=JSON_PATCH, timeout_seconds=timeout_seconds)
    )


async def decide(
    client: Client, name: str, decision: PlanDecision, by: str, *, timeout_seconds: float = WRITE_SECONDS
) -> RepairPlan:
    """Write what is decided about a plan, and who did."""
    body = msgspec.json.encode({"spec": {"decision": decision, "decidedBy": by}})
    path = f"{COLLECTION}/{name}"
    return decoded_plan(
        await client.request("PATCH", path, body=body, content_type=MERGE_PATCH, timeout_seconds=timeout_seconds)
    )


async def delete_plan(client: Client, plan: RepairPlan, *, timeout_seconds: float = WRITE_SECONDS) -> None:
    """Delete a plan; one that is gone, or another one of its name, is no error of ours."""
    path = f"{COLLECTION}/{plan.name}"
    await delete_object(client, path, plan.metadata.uid, timeout_seconds=timeout_seconds)
