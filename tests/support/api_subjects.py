"""What the scheduler's API answers about, made in the test's own process."""

from typing import cast

import msgspec

from scheduler.api.api_server import Subjects
from scheduler.api.queue_answers import WaitingPods
from scheduler.api.server_thread import SchedulingLoop
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.device_usage import DeviceUsage
from scheduler.kube.pod_writes import PendingPod, PodScheduled
from scheduler.queue import SchedulingQueue
from scheduler.settings import HistorySettings, default
from scheduler.status.status_writer import StatusWriter
from scheduler.worker.fleet_client import FleetClient, FleetReply
from scheduler.worker.fleet_documents import fleet_document
from scheduler.worker.fleet_questions import FleetQuestion
from solver import fleet_of
from solver.domain import Pod, Snapshot


class FleetInProcess:
    """Answers as the worker does, without a process of its own."""

    node_group_label = default().metrics.node_group_label

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.error: Exception | None = None
        self.age_seconds = 0.0

    def namespaces(self) -> tuple[str, ...]:
        """Those of the claims; the scheduler's are those of the cluster."""
        return tuple(dict.fromkeys(claim.id.namespace for claim in self.snapshot.claims))

    async def ask(self, question: FleetQuestion) -> FleetReply:
        """Answer a question."""
        if self.error is not None:
            raise self.error
        fleet = fleet_of(self.snapshot, node_group_label=question.node_group_label)
        labels = {node.name: dict(node.labels) for node in self.snapshot.nodes}
        return FleetReply(msgspec.Raw(msgspec.json.encode(fleet_document(fleet, labels, question))), self.age_seconds)


class ShownConditions:
    """What waiting pods show: the same message for all but those in `unseen`."""

    def __init__(self, message: str, unseen: tuple[str, ...] = ()) -> None:
        self._message, self._unseen = message, unseen

    def pending(self, pod: Pod) -> PendingPod:
        """Return a pod with its condition."""
        if pod.id.name in self._unseen:
            return PendingPod(pod, None)
        return PendingPod(pod, PodScheduled("False", "Unschedulable", self._message))


def subjects(
    *,
    snapshot: Snapshot | None = None,
    history: DecisionHistory | None = None,
    usage: DeviceUsage | None = None,
    queue: SchedulingQueue | None = None,
    conditions: ShownConditions | None = None,
) -> Subjects:
    """Make the subjects of this event loop; what is not given is empty."""
    loop = SchedulingLoop(60.0)
    return Subjects(
        history or DecisionHistory(HistorySettings()),
        usage or DeviceUsage(24),
        WaitingPods(
            queue or SchedulingQueue({"dovetail"}),
            cast("StatusWriter", conditions or ShownConditions("0 free.")),
            loop,
        ),
        cast("FleetClient", FleetInProcess(snapshot or Snapshot())),
        loop,
    )
