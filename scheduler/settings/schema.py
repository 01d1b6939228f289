"""
What the configuration file holds, one struct a mapping.

`config/default.yaml` and `config/schema.json` are generated from these structs and their field docstrings, so a
field is documented here and nowhere else.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from scheduler.settings.profile import LEVELS, PolicyName, WeightSettings
from scheduler.settings.tenancy import Holds, Messages, PreemptionSettings
from solver.domain import (
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OwnedDevices,
    Policy,
    PreemptionRules,
)

API_VERSION: Final = "config.dovetail.dev/v1alpha1"
KIND: Final = "DovetailConfiguration"

Seconds = Annotated[float, Meta(gt=0, le=86400)]
Mebibytes = Annotated[int, Meta(ge=256, le=1_048_576)]
Name = Annotated[str, Meta(max_length=253, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")]
ObjectName = Annotated[str, Meta(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Namespace = Annotated[str, Meta(max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")]


class LogLevel(StrEnum):
    """The least severe level that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """What a log line looks like."""

    JSON = "json"
    """One JSON object a line, for machines."""
    CONSOLE = "console"
    """Aligned text, coloured on a terminal, for people."""


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A mapping of the file: camelCase keys, all of them optional, unknown ones refused."""


class Profile(_Section, frozen=True):
    """One scheduler name and how its pods are placed."""

    scheduler_name: Name = "dovetail"
    """The name that pods give in `spec.schedulerName`. Pods of other names are never touched, only counted."""

    policy: PolicyName = PolicyName.PACK
    """Which of the valid plans is the best."""

    weights: WeightSettings = WeightSettings()
    """What preferences and scores weigh beside each other, from 0 to 100."""

    preemption: PreemptionSettings = PreemptionSettings()
    """Whether pods of lower priority make room."""


class NodeLabels(_Section, frozen=True):
    """Nodes by their labels."""

    match_labels: dict[str, str] = {}
    """A node is chosen when it has every one of these labels with this value; no labels choose every node."""


class Owned(_Section, frozen=True):
    """The devices that Dovetail may allocate; what others have allocated always counts as taken."""

    drivers: tuple[Name, ...] = ()
    """
    Drivers by name, such as `gpu.nvidia.com`; an empty list means every driver. Two schedulers must never allocate
    the same device, and the API server does not check it: list drivers, or nodes below, where another one allocates.
    """

    node_selector: NodeLabels = NodeLabels()
    """The nodes whose devices may be allocated. Devices that belong to no single node are owned by driver alone."""


class Devices(_Section, frozen=True):
    """Which devices are ours."""

    owned: Owned = Owned()
    """What Dovetail may allocate; by default everything."""

    group_labels: tuple[str, ...] = ("nvidia.com/gpu.clique",)
    """
    Node labels whose values group nodes with fast links between them: groups none of whose devices is in use stay so
    while others are left.
    """

    group_attributes: tuple[str, ...] = ("resource.kubernetes.io/pcieRoot",)
    """Device attributes whose values group devices of one node in the same way, for the policy `topology`."""

    allocate_where_plugins_serve: bool = False
    """
    Whether devices are also allocated on nodes that offer the extended resource of their class themselves (allocatable
    above zero, from a device plugin). By default they are left alone there, because plugin and driver would give the
    same hardware away twice. Turn it on only where the two have different hardware on one node.
    """


class SolverLimits(_Section, frozen=True):
    """What a decision may cost."""

    budget_seconds: Annotated[float, Meta(gt=0, le=60)] = 2.0
    """
    Seconds of wall time for one batch. Small batches are proven optimal in milliseconds and end sooner; when the
    time is up the best plan so far is taken, which is never worse than first fit.
    """

    deterministic_seconds: Annotated[float, Meta(gt=0, le=600)] = 4.0
    """
    The same limit in the solver's own measure of work, which does not depend on the machine's speed or load. It is
    what makes a recorded decision repeatable.
    """

    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    """Threads of the search. One is fastest for small models; more than the container has cores slows it down."""

    memory_limit_mib: Mebibytes = msgspec.field(default=1024, name="memoryLimitMiB")
    """
    Mebibytes of address space that the solver's process may take beyond what it has at its start. Keep it, and half
    a gibibyte for the rest, below the container's limit: a batch that is too large then ends the solver's process and
    not the whole pod.
    """

    cost_milliseconds: Annotated[int, Meta(ge=1, le=60_000)] = 100
    """
    Milliseconds, counted in steps, that a batch may spend on selectors never evaluated on these devices and on ways to
    serve a claim; 25 ms more for each 1,000 devices while the solver's process is new. Pods that need more are decided
    beside the batches, so that no other pod waits for them.
    """

    costly_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0
    """Seconds for one decision beside the batches. A pod that needs more rests, and its condition says why."""

    costly_memory_limit_mib: Mebibytes = msgspec.field(default=512, name="costlyMemoryLimitMiB")
    """Mebibytes of address space that such a process may take beyond what the solver's process has."""

    snapshot_folder: str = ""
    """
    The folder in which a batch that the solver did not survive is saved with the cluster as it was, so that it can be
    looked into; empty means the system's folder for temporary files.
    """


class BatchLimits(_Section, frozen=True):
    """How many pods are decided together."""

    max_pods: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """
    The most pods of one batch. Pods are decided at once when nothing runs, and collected only while a decision or
    its writes are under way, so this limit is met only when very many wait.
    """


class CommitLimits(_Section, frozen=True):
    """How fast plans are written."""

    max_concurrency: Annotated[int, Meta(ge=1, le=1024)] = 64
    """
    The most writes under way at once. The number in use adapts: it falls when the API server answers 429 or slows
    down, and grows again up to this.
    """

    request_timeout_seconds: Seconds = 4.0
    """
    Seconds until a write counts as lost. It may have acted all the same, so the object is read again before anything
    is taken back. With the renew deadline it must be shorter than the lease: the last write of a former leader has
    ended then before another one starts.
    """

    status_share: Annotated[float, Meta(gt=0, le=0.9)] = 0.5
    """
    The largest share of all writes that conditions and events make up; the first word about a pod is always written,
    and while nothing is placed one a second. A plain pod is one binding and one event, a pod with a claim about three
    writes and one event: below 0.5, events of pods that are bound come late or are dropped.
    """

    binding_timeout_seconds: Seconds = 600.0
    """
    Seconds from an allocation (its allocationTimestamp) until all binding conditions of its devices have to be True.
    Then, or as soon as a binding failure condition is, the allocation is taken back and the pod is decided anew. Also
    the seconds until volumes that wait for a pod have to be made and bound.
    """

    avoid_failed_device_seconds: Seconds = 300.0
    """
    The longest rest, in seconds, of a device that did not get ready for a pod, in time or at all. After its first
    failure a device rests for 15 seconds, and twice as long after each further one. Then it is given last, that is
    where no other device does, until it got ready or has not failed for this time. It is not tainted in the API: a
    restart of the scheduler forgets it. For as long as this the pod evicts no other pods.
    """

    suspect_device_seconds: Seconds = 900.0
    """
    Seconds for which a device is given to pods last, after a pod that its controller replaces failed on it, or after
    the kubelet reported it unhealthy in a pod's status. Nothing is forbidden, and a restart of the scheduler forgets
    it.
    """


class QueueTimes(_Section, frozen=True):
    """When a pod that could not be placed is tried again."""

    initial_backoff_seconds: Seconds = 1.0
    """Seconds that a pod waits after its first failed attempt; doubled with each further one."""

    max_backoff_seconds: Seconds = 10.0
    """The longest such wait in seconds."""

    report_missing_members_seconds: Seconds = 10.0
    """
    Seconds for which a pod of a gang waits for members that do not exist yet before its condition says so. Claims that
    it still holds from an attempt before a restart are freed then.
    """

    max_passed_over_seconds: Seconds = 300.0
    """
    Seconds for which others of the same priority or a lower one may be placed ahead of a pod that finds no room. Then
    it goes before all of its priority, and nodes are held for it: what becomes free there is given to nobody else until
    it fits. Shorter keeps large pods from waiting behind a stream of small ones, and leaves more devices idle
    meanwhile.
    """

    costly_share: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """
    The part of the time that the pods of a namespace may use for decisions beside the batches (`solver.costlySeconds`).
    It is paid afterwards: after 20 s it waits for up to 200 s. The namespace comes first that was served longest ago.
    """

    retry_after_seconds: Seconds = 300.0
    """
    Seconds after which a waiting pod is tried again although nothing changed that it waits for. Changes wake it at
    once; this is the safety net.
    """

    max_waiting_mib: Annotated[int, Meta(ge=1, le=1_048_576)] = msgspec.field(default=512, name="maxWaitingMiB")
    """
    Mebibytes that waiting pods and claims without an allocation may take in memory, about 10 KiB for a pod with a
    claim. A namespace may use as much as is left free: one namespace alone half of it. More are not taken in until
    there is room again. Bound pods and allocated claims are always taken in.
    """


class LeaderElection(_Section, frozen=True):
    """Which of several replicas schedules (a Lease of coordination.k8s.io)."""

    enabled: bool = True
    """Whether a Lease is held before anything is written. Turn it off only for a single process."""

    lease_name: ObjectName = "dovetail"
    """The name of the Lease. Two installations in one cluster need two names or two namespaces."""

    lease_namespace: Namespace = ""
    """The namespace of the Lease; empty means the pod's own, or `dovetail-system` outside a cluster."""

    lease_duration_seconds: Annotated[int, Meta(ge=1, le=3600)] = 15
    """Whole seconds that others wait, after the last renewal that they saw, before they take the Lease."""

    renew_deadline_seconds: Seconds = 10.0
    """
    Seconds after its last successful renewal from which a leader starts no write any more, and ends. Must be shorter
    than the lease.
    """

    retry_period_seconds: Seconds = 2.0
    """Seconds between two attempts to take or renew the Lease."""


class Logging(_Section, frozen=True):
    """What is logged, on standard error."""

    level: LogLevel = LogLevel.INFO
    """The least severe level that is written."""

    format: LogFormat = LogFormat.JSON
    """What a line looks like."""


class Settings(_Section, frozen=True):
    """The whole configuration file."""

    api_version: Literal["config.dovetail.dev/v1alpha1"]
    """The version of this file's format."""

    kind: Literal["DovetailConfiguration"]
    """The kind of this file."""

    profiles: Annotated[tuple[Profile, ...], Meta(min_length=1)] = (Profile(),)
    """The scheduler names that Dovetail answers to, each once."""

    devices: Devices = Devices()
    """Which devices are ours."""

    solver: SolverLimits = SolverLimits()
    """What a decision may cost."""

    batch: BatchLimits = BatchLimits()
    """How many pods are decided together."""

    commit: CommitLimits = CommitLimits()
    """How fast plans are written."""

    queue: QueueTimes = QueueTimes()
    """When a pod that could not be placed is tried again."""

    holds: Holds = Holds()
    """How many nodes are held for pods that were passed over."""

    messages: Messages = Messages()
    """What the authors of pods read."""

    leader_election: LeaderElection = LeaderElection()
    """Which of several replicas schedules."""

    bind_address: str = ":8080"
    """
    Host and port of /livez, /readyz and /metrics, in plain HTTP: `:8080` (every address), `127.0.0.1:8080`,
    `[::1]:8080`. Port 0 takes a free one.
    """

    logging: Logging = Logging()
    """What is logged."""

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The names that pods of ours give."""
        return frozenset(profile.scheduler_name for profile in self.profiles)

    def policy(self, scheduler_name: str) -> Policy:
        """Give the solver's policy for the pods of one profile; `KeyError` for a name without one."""
        profiles = {profile.scheduler_name: profile for profile in self.profiles}
        return Policy(
            name=profiles[scheduler_name].policy.value,
            levels=LEVELS[profiles[scheduler_name].policy],
            weights=profiles[scheduler_name].weights.solver_weights(),
            group_labels=self.devices.group_labels,
            group_attributes=self.devices.group_attributes,
            owned=self.owned_devices(),
            preemption=self._preemption(profiles[scheduler_name].preemption),
            allocates_where_plugins_serve=self.devices.allocate_where_plugins_serve,
            node_reservations=self.holds.bounds(),
            tells_inventory=self.messages.inventory,
        )

    def _preemption(self, section: PreemptionSettings) -> PreemptionRules:
        return PreemptionRules(
            is_enabled=section.enabled,
            frees_devices=section.devices,
            scheduler_names=tuple(sorted(self.scheduler_names)),
            minimum_run_seconds=section.minimum_run_seconds,
            most_victims=section.max_evictions_per_minute,
            ceiling=section.max_evictions_per_minute,
            protection=section.protection.rules(),
            binds_below=section.protection.below_priority,
        )

    def owned_devices(self) -> OwnedDevices:
        """Give `devices.owned` in the solver's words."""
        owned = self.devices.owned
        requirements = tuple(
            NodeSelectorRequirement(key=key, operator=NodeSelectorOperator.IN, values=(value,))
            for key, value in sorted(owned.node_selector.match_labels.items())
        )
        terms = (NodeSelectorTerm(match_expressions=requirements),) if requirements else ()
        return OwnedDevices(drivers=tuple(sorted(set(owned.drivers))), node_terms=terms)


def default() -> Settings:
    """Give the settings of an empty configuration."""
    return Settings(api_version=API_VERSION, kind=KIND)
