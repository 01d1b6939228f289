"""Node selectors, tolerations and taints: relations between objects and nodes, as the core API defines them."""

from enum import StrEnum
from typing import Final

import msgspec


class NodeSelectorOperator(StrEnum):
    """core/v1 NodeSelectorOperator."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class NodeSelectorRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 NodeSelectorRequirement; `operator` stays text where the server knows one that we do not."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 NodeSelectorTerm: all requirements hold; a term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 NodeSelector: at least one term holds."""

    terms: tuple[NodeSelectorTerm, ...] = ()


class TaintEffect(StrEnum):
    """Effects of node taints and of device taints (`None` exists only for devices)."""

    NONE = "None"
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


BINDING_FAILED_TAINT: Final = "dovetail.dev/binding-failed"
"""
The key of the taint of a device that did not get ready for a pod; kept by the scheduler, not in the API. Only a
toleration with this very key covers it: who tolerates everything must not be given the same device over and over.
"""


SUSPECT_TAINT: Final = "dovetail.dev/suspect"
"""
The key of the taint, of effect None, of a device that work failed on or that was reported unhealthy; kept by the
scheduler, not in the API. It keeps nobody away: such devices are given last.
"""


UNREADABLE_TAINT: Final = "dovetail.dev/unreadable"
"""
The key of the taint of devices that a claim may hold whose allocation cannot be read, or that a DeviceTaintRule means
whose own taint cannot be; kept by the scheduler, not in the API. No toleration covers it.
"""


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """A taint of a node or device; an unknown effect stays as text and blocks nothing."""

    key: str
    value: str = ""
    effect: str
    time_added: str = ""


class Toleration(msgspec.Struct, frozen=True, kw_only=True):
    """A toleration of a pod or of a device request; empty key or effect match all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
