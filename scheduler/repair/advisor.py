"""Makes a plan where there is none, and removes plans that hold no more or that nobody has approved in time."""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from scheduler.cluster import Cluster
from scheduler.kube import repair_plans
from scheduler.kube.client import Client
from scheduler.kube.repair_plans import MoveState, PlanDecision, PlanState, PlanStatus, RepairPlan
from scheduler.kube.writer import Writer
from scheduler.observe import logs
from scheduler.placement_check.podset_pods import is_expected
from scheduler.queue import SchedulingQueue
from scheduler.repair.plan_record import PlanRecord
from scheduler.settings import Settings
from scheduler.worker import frames
from scheduler.worker.decision_recorder import DecisionRecorder
from scheduler.worker.recording import Record, RepairRecord, seen_by_repairs
from scheduler.worker.supervisor import WorkerSupervisor
from solver.domain import Batch, Policy, Relocation, RepairGoal, Snapshot

_RETRY_SECONDS: Final = 300.0
"""After so long, at the earliest, a goal that no moves reach is tried again."""
_LIMIT_FACTOR: Final = 2
_START_SECONDS: Final = 10.0
"""A child has some more than planning may take: the search looks at the clock only now and then."""
_MEMORY_MIB: Final = 2048

_log: Final = logs.logger()


class AdvisorParts(NamedTuple):
    """What the advisor reads and writes with."""

    client: Client
    writer: Writer
    cluster: Cluster
    queue: SchedulingQueue
    worker: WorkerSupervisor
    recorder: DecisionRecorder


class Advisor:
    """Keeps one open plan: the most important goal that moves reach."""

    def __init__(self, parts: AdvisorParts, settings: Settings, clock: Callable[[], float]) -> None:
        self._parts: Final = parts
        self._settings: Final = settings
        self._policy: Final[Policy] = settings.policy(settings.profiles[0].scheduler_name)
        self._clock: Final = clock
        self._failed: Final[dict[str, tuple[float, str]]] = {}
        """Goals (subjects) that no moves reach, with the time of the attempt and the reason."""

    @property
    def failures(self) -> dict[str, str]:
        """Goals that no moves reach, with the reasons; goals that need no moves are left out."""
        return {subject: why for subject, (_, why) in self._failed.items() if why}

    async def look(self, record: PlanRecord) -> None:
        """Look at the fleet once. Raise `KubeError` and `WorkerError`."""
        for plan in record.disposable():
            await self._delete(plan)
        waiting = [plan for plan in record.plans if plan.is_open]
        for plan in waiting:
            if plan.status.state is PlanState.PROPOSED and not plan.status.moves:
                await self._review(plan, record)
        if not waiting:
            await self._propose(record)

    async def still_possible(self, plan: RepairPlan, record: PlanRecord) -> str:
        """Say what makes the moves impossible that are left of a plan; empty where nothing does."""
        solved = plan.solved()
        left = tuple(move for move in solved.found.moves if plan.progress(move.pod_uid) is None)
        found = Relocation(
            is_found=True, moves=left, placements=solved.found.placements, allocations=solved.found.allocations
        )
        begun = (plan.progress(move.pod_uid) for move in solved.found.moves)
        under_way = tuple(
            (each.uid, each.place) for each in begun if each is not None and each.state is MoveState.EVICTING
        )
        answer = await self._ask(record, solved.goal, found, under_way)
        first = next(iter(answer.violations), None)
        return "" if first is None else f"{first.subject}: {first.message}"

    async def _review(self, plan: RepairPlan, record: PlanRecord) -> None:
        """Remove a plan that nobody has decided about, or that the cluster has overtaken."""
        is_old = record.now - plan.created > self._settings.repair.approval_seconds
        if plan.spec.decision is PlanDecision.CANCELLED:
            state = PlanStatus(state=PlanState.CANCELLED, message="cancelled", since=repair_plans.now_text(record.now))
            await self._parts.writer.write(partial(repair_plans.write_status, self._parts.client, plan, state))
        elif (is_old and plan.spec.decision is PlanDecision.OPEN) or await self.still_possible(plan, record):
            await self._delete(plan)

    async def _propose(self, record: PlanRecord) -> None:
        before = self._parts.recorder.begin(self._parts.cluster.snapshot)
        answer = await self._ask(record)
        for subject, why in answer.failures:
            self._failed[subject] = record.now, why
        if answer.goal is None or answer.found is None:
            return
        moved = {move.pod_uid: self._parts.cluster.observed_pod(move.pod) for move in answer.found.moves}
        controllers = {
            uid: pod.controller.uid for uid, pod in moved.items() if pod is not None and pod.controller is not None
        }
        spec = repair_plans.spec_of(answer.goal, answer.found, controllers)
        made = await self._parts.writer.write(partial(repair_plans.create_plan, self._parts.client, spec))
        if made is not None:
            file = "" if before is None else self._save(made, before, record)
            size = {"moves": len(spec.moves), "least": spec.least}
            _log.info(logs.REPAIR_PLANNED, plan=made.name, goal=spec.goal.subject, **size, file=file)

    def _save(self, plan: RepairPlan, before: Snapshot, record: PlanRecord) -> str:
        """Save what a plan was made from, for `dovetail replay`; return the path of the file."""
        solved, seconds = plan.solved(), self._settings.repair.planning_seconds
        return self._parts.recorder.save(
            Record(
                cause=f"RepairPlan {plan.name}",
                snapshot=seen_by_repairs(before),
                batch=solved.goal.wanted,
                policy=self._policy,
                seconds=seconds,
                deterministic_seconds=seconds,
                workers=self._settings.solver.workers,
                repair=RepairRecord(goal=solved.goal, rules=record.rules(), found=solved.found),
            )
        )

    async def _ask(
        self,
        record: PlanRecord,
        goal: RepairGoal | None = None,
        planned: Relocation | None = None,
        under_way: tuple[tuple[str, str], ...] = (),
    ) -> frames.RepairPlanned:
        repair, solver = self._settings.repair, self._settings.solver
        # None is tried again before all others had their turn, however many looks that takes.
        turn_seconds = repair.interval_seconds * len(self._failed) / frames.MOST_GOALS
        for subject, (at, _) in list(self._failed.items()):
            if record.now - at > max(_RETRY_SECONDS, turn_seconds):
                del self._failed[subject]
        seconds = _LIMIT_FACTOR * repair.planning_seconds + _START_SECONDS
        limits = frames.IsolationLimits(end_seconds=seconds, cpu_seconds=seconds, memory_limit_mib=_MEMORY_MIB)

        def order(number: int, limits: frames.IsolationLimits) -> frames.PlanRepair:
            return frames.PlanRepair(
                id=number,
                assumptions=self._parts.cluster.assumptions(),
                policy=self._policy,
                waiting=self._waiting(),
                targets=repair.targets(),
                rules=record.rules(),
                skipped=tuple(self._failed),
                seconds=repair.planning_seconds,
                workers=solver.workers,
                goal=goal,
                planned=planned,
                under_way=under_way,
                limits=limits,
            )

        return await self._parts.worker.ask_child(order, frames.RepairPlanned, limits)

    def _waiting(self) -> Batch:
        """Return the pods that could not be placed, in queue order; nobody moves for Workloads that are not let in."""
        queued_pods = (each for each in self._parts.queue.pods() if not is_expected(each.pod.id))
        tried = [queued for queued in queued_pods if queued.attempts and not queued.pod.node_name]
        tried.sort(key=lambda queued: (-queued.pod.priority, queued.first_seen, queued.pod.id))
        return self._parts.cluster.with_gangs(Batch(pods=tuple(queued.pod for queued in tried)))

    async def _delete(self, plan: RepairPlan) -> None:
        await self._parts.writer.write(partial(repair_plans.delete_plan, self._parts.client, plan))
