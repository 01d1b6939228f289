"""
The structs of the configuration file, one for each mapping.

`config/default.yaml` and `config/schema.json` are generated from these structs and their field docstrings, so a key
is documented here (and in `policies`) and nowhere else. Each docstring gives the unit.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from scheduler.features import BY_RIGHTS, OFF_BY_DEFAULT, Feature
from scheduler.settings.holds import HoldLimits
from scheduler.settings.observability import (
    ApiSettings,
    HealthSettings,
    HistorySettings,
    Logging,
    MetricsSettings,
)
from scheduler.settings.policies import (
    LEVELS,
    AdmissionCheckSettings,
    Autoscaling,
    Messages,
    NodeReservations,
    PlacedName,
    Section,
)
from scheduler.settings.profiles import Name, Profile
from scheduler.settings.repairs import RepairMode, RepairSettings
from solver.domain import (
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OwnedDevices,
    Policy,
)

API_VERSION: Final = "config.dovetail.dev/v1alpha1"
KIND: Final = "DovetailConfiguration"
Seconds = Annotated[float, Meta(gt=0, le=86400)]
Mebibytes = Annotated[int, Meta(ge=256, le=1_048_576)]
ObjectName = Annotated[str, Meta(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Namespace = Annotated[str, Meta(max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")]


class NodeLabels(Section, frozen=True):
    """Nodes, selected by their labels."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    """A node is selected if it has all of these labels with these values; an empty mapping selects every node."""


class Owned(Section, frozen=True):
    """The devices that Dovetail may allocate. Devices that others have allocated always count as in use."""

    drivers: tuple[Name, ...] = ()
    """
    Driver names, such as `gpu.nvidia.com`; an empty list means all drivers. Two schedulers must never allocate the
    same device, and the API server does not check this: if another scheduler allocates devices in this cluster, list
    drivers here or nodes below.
    """

    node_selector: NodeLabels = NodeLabels()
    """The nodes whose devices may be allocated. Only `drivers` applies to devices that belong to no single node."""


class Devices(Section, frozen=True):
    """Which devices Dovetail allocates, and how they are grouped."""

    owned: Owned = Owned()
    """The devices that Dovetail may allocate; by default all."""

    group_labels: tuple[str, ...] = ("nvidia.com/gpu.clique",)
    """
    Node labels whose values group nodes that have fast links between them. A group without a device in use stays
    unused while other devices are left.
    """

    group_attributes: tuple[str, ...] = ("resource.kubernetes.io/pcieRoot",)
    """Device attributes whose values group the devices of one node in the same way; used by the policy `topology`."""

    allocate_on_device_plugin_nodes: bool = False
    """
    Whether devices are also allocated on nodes where a device plugin offers the same device class. It offers the
    extended resource of the class: allocatable above zero. Set it to true only if plugin and driver manage different
    hardware on one node: else the same device is given out twice.
    """


class SolverLimits(Section, frozen=True):
    """Limits of time and memory for a decision."""

    budget_seconds: Annotated[float, Meta(gt=0, le=60)] = 2.0
    """
    Seconds of wall time for one batch. When the time is up, the best plan found so far is used; it is never worse than
    first fit.
    """

    deterministic_seconds: Annotated[float, Meta(gt=0, le=600)] = 4.0
    """
    The same limit in OR-Tools' deterministic time, which does not depend on the machine's speed or load. It makes
    decisions repeatable.
    """

    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    """Threads of the search. One is fastest for small models; more threads than cores make it slower."""

    memory_limit_mib: Mebibytes = msgspec.field(default=1024, name="memoryLimitMiB")
    """
    Mebibytes of address space that the worker process may use beyond what it has at its start. Keep this plus 512
    MiB below the container's memory limit: a batch that is too large then ends only the worker process, not the pod.
    """

    evaluation_milliseconds: Annotated[int, Meta(ge=1, le=60_000)] = 100
    """
    Milliseconds (counted in steps of work) that a batch may spend on results that are not in the cache: it evaluates
    selectors and enumerates the ways to satisfy a claim. While the worker process is new, it has 50 ms more for each
    1,000 devices. A pod that needs more is costly: it is decided in a process of its own.
    """

    costly_pod_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0
    """Seconds of wall time for one decision about costly pods. A pod that needs more waits; its condition says why."""

    costly_pod_memory_limit_mib: Mebibytes = msgspec.field(default=512, name="costlyPodMemoryLimitMiB")
    """Mebibytes of address space that such a process may use beyond what the worker process has."""

    snapshot_folder: str = ""
    """
    Where a batch on which the solver crashed or broke a rule is saved together with the cluster's state, for
    `dovetail replay`. Empty: the system's folder for temporary files.
    """


class BatchLimits(Section, frozen=True):
    """How many pods one decision covers."""

    max_pods: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """
    The most pods in one batch. Only a very long queue reaches this limit: pods are collected only while a decision or
    its writes run.
    """


class CommitLimits(Section, frozen=True):
    """How plans are written to the API server."""

    max_concurrency: Annotated[int, Meta(ge=1, le=1024)] = 64
    """
    The most concurrent writes. The number in use falls when the API server answers 429 or becomes slow, and grows again
    up to this limit.
    """

    request_timeout_seconds: Seconds = 4.0
    """
    Seconds until a write without an answer counts as lost. It may have taken effect, so the object is read again before
    anything is rolled back. Together with `leaderElection.renewDeadlineSeconds` it must be shorter than the lease. At
    most half of the time until the lease ends is used, so that the last write ends before a new leader starts.
    """

    max_watch_age_seconds: Seconds = 180.0
    """
    Seconds without an event or a bookmark of a watch after which nothing is written until the watch goes on.
    The API server sends a bookmark about once a minute. After half of this time the kind is listed again; so below 130
    seconds kinds in which nothing changes are listed again and again.
    """

    status_share: Annotated[float, Meta(gt=0, le=0.9)] = 0.5
    """
    The largest share of conditions and events among all writes. The first condition of a pod is always written, and at
    least one per second while nothing is placed. A pod without claims needs one binding and one event, a pod with a
    claim about three writes and one event: below 0.5, events about bound pods are late or dropped.
    """

    binding_timeout_seconds: Seconds = 600.0
    """
    Seconds from an allocation (its allocationTimestamp) within which all binding conditions of its devices must become
    True. After that, or once a binding failure condition is True, the allocation is rolled back. Then the pod is
    scheduled again. Volumes with WaitForFirstConsumer must be provisioned and bound within the same time.
    """

    avoid_failed_device_seconds: Seconds = 300.0
    """
    The longest time, in seconds, for which a device is not allocated after its binding conditions failed or timed out.
    The first failure excludes it for 15 seconds; each further failure doubles the time. Afterwards it is allocated only
    if no other device fits, until it becomes ready once or has not failed for this time. The taint is kept in memory
    only and is lost when the scheduler restarts. For this time the pod also evicts no other pods.
    """

    suspect_device_seconds: Seconds = 900.0
    """
    Seconds for which a suspect device is allocated only if no other device fits. A device is suspect after a pod with a
    controller failed on it, or the kubelet reported it unhealthy. This is kept in memory only.
    """


class QueueTimes(Section, frozen=True):
    """When a pod that could not be placed is tried again, and in which order."""

    initial_backoff_seconds: Seconds = 1.0
    """Seconds of backoff after the first failed attempt of a pod; each further failure doubles it."""

    max_backoff_seconds: Seconds = 10.0
    """The longest backoff in seconds; of equal pods at most 0.5 s of it are left when something they lack is freed."""

    report_missing_members_seconds: Seconds = 10.0
    """
    Seconds for which a pod of a gang waits for members that do not exist yet before its condition says so. Claims that
    are still allocated to it from an attempt before a restart are deallocated then.
    """

    starvation_seconds: Seconds = 300.0
    """
    Seconds for which a pod that fits nowhere may wait while pods of the same or a lower priority are placed. Then it
    goes before all pods of its priority, and nodes are reserved for it (`nodeReservations`). A shorter time protects
    large pods from a stream of small ones, and leaves more devices idle.
    """

    costly_pod_share: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """
    The share of time that one namespace may use for decisions about costly pods (`solver.costlyPodSeconds`). With the
    default, a pause of up to 200 s follows a decision of 20 s.
    """

    retry_after_seconds: Seconds = 300.0
    """
    Seconds after which an unschedulable pod is tried again although no event could have made it schedulable. It is the
    safety net (kube-scheduler's podMaxInUnschedulablePodsDuration).
    """

    max_waiting_mib: Annotated[int, Meta(ge=1, le=1_048_576)] = msgspec.field(default=512, name="maxWaitingMiB")
    """
    Mebibytes of memory for waiting pods and unallocated claims; a pod with a claim takes about 10 KiB. A namespace may
    use as much as it leaves free, so one namespace alone uses at most half. Beyond it, further objects are ignored
    until there is room.
    """


LONGEST_LEASE_SECONDS: Final = 3600
"""A lease that says more counts as one of an hour: no replica is configured so."""
LAST_WRITES_SECONDS: Final = 0.5
"""Least time from the renew deadline to the end of the lease, in which the leader's last writes end."""


class LeaderElection(Section, frozen=True):
    """Which of several replicas schedules (a Lease of coordination.k8s.io)."""

    enabled: bool = True
    """Whether a process must hold a Lease before it writes anything. Turn it off only for a single replica."""

    lease_name: ObjectName = "dovetail"
    """The name of the Lease. Two installations in one cluster need different names or namespaces."""

    lease_namespace: Namespace = ""
    """The namespace of the Lease. Empty: the pod's own namespace, or `dovetail-system` outside a cluster."""

    lease_duration_seconds: Annotated[int, Meta(ge=1, le=LONGEST_LEASE_SECONDS)] = 15
    """Whole seconds that other replicas wait after the last renewal that they saw before they take the Lease."""

    renew_deadline_seconds: Seconds = 10.0
    """
    Seconds after its last successful renewal after which a leader stops writing and exits: at least half a second
    less than `leaseDurationSeconds`.
    """

    retry_period_seconds: Seconds = 2.0
    """Seconds between two renewals of the Lease. A standby reads it ten times a second."""


class Settings(Section, frozen=True):
    """The whole configuration file."""

    api_version: Literal["config.dovetail.dev/v1alpha1"]
    """The version of this file's format."""

    kind: Literal["DovetailConfiguration"]
    """The kind of this file."""

    profiles: Annotated[tuple[Profile, ...], Meta(min_length=1)] = (Profile(),)
    """The profiles, each with its own scheduler name."""

    devices: Devices = Devices()
    """Which devices Dovetail allocates, and how they are grouped."""

    autoscaling: Autoscaling = Autoscaling()
    """What is known of nodes to come."""

    solver: SolverLimits = SolverLimits()
    """Limits of time and memory for a decision."""

    batch: BatchLimits = BatchLimits()
    """How many pods one decision covers."""

    commit: CommitLimits = CommitLimits()
    """How plans are written to the API server."""

    queue: QueueTimes = QueueTimes()
    """When a pod that could not be placed is tried again, and in which order."""

    node_reservations: NodeReservations = NodeReservations()
    """How many nodes are reserved for starving pods."""

    device_holds: HoldLimits = HoldLimits()
    """How much room may be held for pods to come."""

    repair: RepairSettings = RepairSettings()
    """Whether pods are moved to repair the fleet."""

    admission_check: AdmissionCheckSettings = AdmissionCheckSettings()
    """Kueue's admission check `dovetail.dev/placement`."""

    messages: Messages = Messages()
    """What conditions and events show to the authors of pods."""

    leader_election: LeaderElection = LeaderElection()
    """Which of several replicas is active."""

    health: HealthSettings = HealthSettings()
    """Where the health of the process is served."""

    metrics: MetricsSettings = MetricsSettings()
    """Where series are served, and how devices are counted for them."""

    history: HistorySettings = HistorySettings()
    """What is remembered of decisions and of devices in use."""

    api: ApiSettings = ApiSettings()
    """The scheduler's own API."""

    logging: Logging = Logging()
    """What is logged, and in which format."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features whose rights the scheduler asks for: without those that nobody has switched on."""
        is_on = {
            Feature.KUEUE: self.admission_check.enabled,
            Feature.REPAIR: self.repair.mode is not RepairMode.DISABLED,
            **dict.fromkeys(BY_RIGHTS, True),
        }
        return tuple(feature for feature in Feature if feature not in OFF_BY_DEFAULT or is_on[feature])

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The scheduler names of all profiles."""
        return frozenset(profile.scheduler_name for profile in self.profiles)

    def policy(self, scheduler_name: str) -> Policy:
        """Return the solver's policy for one profile; `KeyError` for a name without a profile."""
        profile = {profile.scheduler_name: profile for profile in self.profiles}[scheduler_name]
        return Policy(
            name=profile.policy.value,
            levels=LEVELS[profile.policy],
            counts_devices=profile.placed is PlacedName.DEVICES,
            weights=profile.weights.solver_weights(),
            group_labels=self.devices.group_labels,
            group_attributes=self.devices.group_attributes,
            owned=self.owned_devices(),
            preemption=profile.preemption.rules(self.scheduler_names),
            allocates_where_plugins_serve=self.devices.allocate_on_device_plugin_nodes,
            node_reservations=self.node_reservations.bounds(),
            tells_inventory=self.messages.inventory,
            expected=tuple(each.solver_value() for each in profile.expected_pods),
            shapes_are_complete=self.autoscaling.shapes_complete,
        )

    def owned_devices(self) -> OwnedDevices:
        """Return `devices.owned` as the solver's type."""
        owned, operator = self.devices.owned, NodeSelectorOperator.IN
        requirements = tuple(
            NodeSelectorRequirement(key=key, operator=operator, values=(value,))
            for key, value in sorted(owned.node_selector.match_labels.items())
        )
        term = NodeSelectorTerm(match_expressions=requirements)
        return OwnedDevices(drivers=tuple(sorted(set(owned.drivers))), node_terms=(term,) if requirements else ())


def default() -> Settings:
    """Return the settings of an empty configuration."""
    return Settings(api_version=API_VERSION, kind=KIND)
