"""The parts of a scheduler that its loops connect."""

from dataclasses import dataclass

from scheduler.aside import Asides
from scheduler.cluster import Cluster
from scheduler.commit.commit import Commit
from scheduler.commit.evictions import Evictions
from scheduler.commit.repair.repairs import Repairs
from scheduler.commit.telling.groups import Groups
from scheduler.commit.telling.quarantine import Quarantine
from scheduler.commit.telling.reports import Reports
from scheduler.commit.telling.tally import Tally
from scheduler.commit.waiting.waits import Waits
from scheduler.observe.metrics import Metrics
from scheduler.queue import Completing, PassedOver, Pending
from scheduler.worker.decider import Decider
from scheduler.worker.process import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What is made once and lives as long as the scheduler leads."""

    cluster: Cluster
    pending: Pending
    passed_over: PassedOver
    completing: Completing
    worker: Worker
    decider: Decider
    commit: Commit
    waits: Waits
    repairs: Repairs
    groups: Groups
    evictions: Evictions
    asides: Asides
    reports: Reports
    quarantine: Quarantine
    tally: Tally
    metrics: Metrics
