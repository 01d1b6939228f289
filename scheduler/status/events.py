"""Kubernetes events as values. Reasons, actions and names are kube-scheduler's where it has them."""

import datetime as dt
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from scheduler.kube.encode import NOTE_BYTES, EventRecord, ObjectReference
from scheduler.status.conditions import truncated
from solver.domain import DeviceId, Pod, wording

_CONTROLLER: Final = "dovetail.dev/scheduler"
"""reportingController of events on objects that are not pods."""
_LONGEST_INSTANCE: Final = 128


class EventReason(StrEnum):
    """The reason of an event. The docstrings are the reference of events (docs/reference/events.md)."""

    SCHEDULED = "Scheduled"
    """The pod is bound."""
    FAILED_SCHEDULING = "FailedScheduling"
    """The pod waits: one event for each cause, counted on (`x3 over 5m`) while the cause stays the same."""
    UNKNOWN_SCHEDULER_NAME = "UnknownSchedulerName"
    """No scheduler picked up the pod within half a minute, and its `schedulerName` is nearly that of a profile."""
    BINDING_CONDITIONS_PENDING = "BindingConditionsPending"
    """A node is chosen, and the driver prepares the devices there."""
    BOUND_WITHOUT_DEVICES = "BoundWithoutDevices"
    """A user wrote the node of the pod, so no scheduler allocates its claims; a nodeSelector does the same."""
    PREEMPTING = "Preempting"
    """A pod was evicted to make room for this one."""
    PREEMPTED = "Preempted"
    """This pod was evicted to make room for another one."""
    MOVED = "Moved"
    """This pod was evicted to repair the fleet; room for its successor is held."""
    GANG_PARTLY_BOUND = "GangPartlyBound"
    """Other pods of the gang are bound, and this one is not yet. The scheduler tries again."""
    DEVICE_HELD_TWICE = "DeviceHeldTwice"
    """Another scheduler allocated the same device. Dovetail took its own allocation back."""
    UNREADABLE = "Unreadable"
    """Dovetail cannot read the object and does not use it until it changes. What it holds still counts."""


class EventFactory:
    """
    Makes the events of one scheduler process; `instance` distinguishes its replicas.

    An event names objects of its pod's namespace only, and nodes and devices only with `tells_inventory`. The node that
    a pod is bound to is in its own spec and always named.
    """

    def __init__(self, instance: str, *, tells_inventory: bool = True) -> None:
        self._instance: Final = instance
        self.tells_inventory: Final = tells_inventory
        self._last_nanoseconds = 0

    def scheduled(self, pod: Pod, node: str, now: dt.datetime) -> EventRecord:
        """Make the event of a binding."""
        note = f"Successfully assigned {pod.id} to {node}"
        return self._event(pod, now, ("Normal", EventReason.SCHEDULED, "Binding"), note)

    def failed(self, pod: Pod, message: str, now: dt.datetime) -> EventRecord:
        """Make the event of a failed attempt."""
        return self._event(pod, now, ("Warning", EventReason.FAILED_SCHEDULING, "Scheduling"), message)

    def binding_conditions_pending(self, pod: Pod, message: str, now: dt.datetime) -> EventRecord:
        """Make the event that a pod waits for binding conditions of its devices (KEP-5007)."""
        return self._event(pod, now, ("Normal", EventReason.BINDING_CONDITIONS_PENDING, "Scheduling"), message)

    def device_held_twice(self, pod: Pod, devices: Iterable[DeviceId], now: dt.datetime) -> EventRecord:
        """Make the event that another allocation has the same devices, and that ours was rolled back."""
        named = f": {', '.join(map(str, devices))}" if self.tells_inventory else " devices"
        note = (
            f"the allocation was rolled back, because another one has the same{named}. "
            "Another scheduler may allocate from the same pools"
        )
        return self._event(pod, now, ("Warning", EventReason.DEVICE_HELD_TWICE, "Scheduling"), note)

    def preempted(self, victim: Pod, preemptor: Pod, node: str, now: dt.datetime) -> EventRecord:
        """Make the victim's event. A PodGroup of scheduling.k8s.io stands for its pods. Uids are in `related`."""
        is_own = preemptor.id.namespace == victim.id.namespace
        itself = f"podgroup {preemptor.pod_group}" if preemptor.pod_group else f"pod {preemptor.id.name}"
        named = itself if is_own else wording.seen(preemptor.id, victim.id.namespace)
        note = f"Preempted by {named}{self._on(node)}"
        event = self._event(victim, now, ("Normal", EventReason.PREEMPTED, "Preempting"), note)
        if not is_own:
            return msgspec.structs.replace(event, reporting_controller=preemptor.scheduler_name)
        related = ObjectReference(namespace=preemptor.id.namespace, name=preemptor.id.name, uid=preemptor.uid)
        return msgspec.structs.replace(event, related=related, reporting_controller=preemptor.scheduler_name)

    def moved(self, pod: Pod, plan: str, subject: str, now: dt.datetime) -> EventRecord:
        """Make the event of a pod that a repair evicts; what the repair is for is named to its inventory's readers."""
        what = f" for {subject}" if self.tells_inventory else ""
        note = f"Moved by RepairPlan {plan}{what}: room for its successor is held"
        return self._event(pod, now, ("Normal", EventReason.MOVED, "Evicting"), note)

    def preempting(self, victim: Pod, preemptor: Pod, node: str, now: dt.datetime) -> EventRecord:
        """Make the preemptor's event."""
        seen = wording.seen(victim.id, preemptor.id.namespace)
        where = f" from node {node}" if self.tells_inventory else ""
        note = f"{seen[0].upper()}{seen[1:]} of priority {victim.priority} was evicted{where} to make room"
        return self._event(preemptor, now, ("Normal", EventReason.PREEMPTING, "Preempting"), note)

    def partly_bound(self, pod: Pod, message: str, now: dt.datetime) -> EventRecord:
        """Make the event that other pods of the gang are bound, and this one could not be."""
        return self._event(pod, now, ("Warning", EventReason.GANG_PARTLY_BOUND, "Binding"), message)

    def bound_without_devices(self, pod: Pod, message: str, now: dt.datetime) -> EventRecord:
        """Make the event that a pod got its node by hand, so that no scheduler allocates its claims."""
        return self._event(pod, now, ("Warning", EventReason.BOUND_WITHOUT_DEVICES, "Scheduling"), message)

    def unknown_scheduler(self, pod: Pod, similar: str, now: dt.datetime) -> EventRecord:
        """Make the event that no scheduler has picked up a pod; a pod has only one, whose name has the pod's uid."""
        note = (
            f"No scheduler has picked up this pod: its schedulerName is {pod.scheduler_name}. Did you mean {similar}? "
            "A schedulerName cannot be changed: delete the pod and create it again"
        )
        regarding = ObjectReference(namespace=pod.id.namespace, name=pod.id.name, uid=pod.uid)
        event = self._about(regarding, now, ("Warning", EventReason.UNKNOWN_SCHEDULER_NAME, "Scheduling"), note)
        return msgspec.structs.replace(event, name=f"{pod.id.name[:200]}.unknown-scheduler-{pod.uid[:8]}")

    def unreadable(self, regarding: ObjectReference, message: str, now: dt.datetime) -> EventRecord:
        """Make the event that an object cannot be read."""
        return self._about(regarding, now, ("Warning", EventReason.UNREADABLE, "Reading"), message)

    def _on(self, node: str) -> str:
        return f" on node {node}" if self.tells_inventory else ""

    def _event(self, pod: Pod, now: dt.datetime, kind: tuple[str, str, str], note: str) -> EventRecord:
        regarding = ObjectReference(namespace=pod.id.namespace, name=pod.id.name, uid=pod.uid)
        event = self._about(regarding, now, kind, note)
        instance = f"{pod.scheduler_name}-{self._instance}"
        return msgspec.structs.replace(event, reporting_controller=pod.scheduler_name, reporting_instance=instance)

    def _about(
        self, regarding: ObjectReference, now: dt.datetime, kind: tuple[str, str, str], note: str
    ) -> EventRecord:
        event_type, reason, action = kind
        # The name must be new in the namespace: `<pod>.<hex of nanoseconds>`, never the same number twice.
        nanoseconds = max(int(now.timestamp() * 1e9), self._last_nanoseconds + 1)
        self._last_nanoseconds = nanoseconds
        return EventRecord(
            name=f"{regarding.name[:200]}.{nanoseconds:x}",
            regarding=regarding,
            type=event_type,
            reason=reason,
            action=action,
            note=truncated(note, NOTE_BYTES),
            reporting_controller=_CONTROLLER,
            reporting_instance=f"dovetail-{self._instance}"[:_LONGEST_INSTANCE],
            first_seen=now,
        )
