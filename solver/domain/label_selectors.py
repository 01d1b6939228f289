"""Label selectors (meta/v1), and node selectors, taints and tolerations (core/v1)."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

import msgspec


class LabelSelectorOperator(StrEnum):
    """meta/v1 LabelSelectorOperator."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


def is_met(operator: str, value: str | None, values: Collection[str]) -> bool:
    """Whether a label's value (None: no such label) meets an operator that label and node selectors share."""
    match operator:
        case LabelSelectorOperator.IN:
            return value is not None and value in values
        case LabelSelectorOperator.NOT_IN:
            return value is None or value not in values
        case LabelSelectorOperator.EXISTS:
            return value is not None
        case LabelSelectorOperator.DOES_NOT_EXIST:
            return value is None
        case _:
            return False


class LabelRequirement(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """meta/v1 LabelSelectorRequirement; an unknown operator matches nothing."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the requirement matches labels."""
        return is_met(self.operator, labels.get(self.key), self.values)

    def __str__(self) -> str:
        """Write it as kubectl takes selectors: `app=web`, `tier in (a, b)`, `!old`."""
        match self.operator:
            case LabelSelectorOperator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case LabelSelectorOperator.IN | LabelSelectorOperator.NOT_IN:
                word = "in" if self.operator == LabelSelectorOperator.IN else "notin"
                return f"{self.key} {word} ({', '.join(self.values)})"
            case LabelSelectorOperator.EXISTS:
                return self.key
            case _:
                return f"!{self.key}"


class LabelSelector(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """
    meta/v1 LabelSelector: the conjunction of its requirements; without any it selects everything.

    `matchLabels` are `In` requirements. An absent selector (None) selects nothing.
    """

    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector matches labels."""
        return all(each.holds(labels) for each in self.requirements)

    def __str__(self) -> str:
        """Write it as kubectl takes selectors, with commas between the requirements."""
        return ",".join(map(str, self.requirements))

    @property
    def keys(self) -> tuple[str, ...]:
        """The label keys of its requirements, each once."""
        return tuple(dict.fromkeys(each.key for each in self.requirements))


class NodeSelectorOperator(StrEnum):
    """core/v1 NodeSelectorOperator."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class NodeSelectorRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 NodeSelectorRequirement; `operator` stays text: a newer API server may have more operators."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 NodeSelectorTerm: the conjunction of its requirements; a term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 NodeSelector: the disjunction of its terms."""

    terms: tuple[NodeSelectorTerm, ...] = ()


class TaintEffect(StrEnum):
    """Effects of node taints and of device taints (`None` exists only for devices)."""

    NONE = "None"
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


EXCLUDING_EFFECTS: Final = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})
"""Effects with which a taint keeps off what does not tolerate it."""

GOING_TAINTS: Final = frozenset(
    {
        "karpenter.sh/disrupted",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation",
        "cloud.google.com/impending-node-termination",
        "node.cloudprovider.kubernetes.io/shutdown",
    }
)
"""
Keys of the taints of nodes that are about to go: autoscalers remove them, or the provider takes them back.

A toleration without a key does not tolerate them, but for pods that belong to the node (`Pod.belongs_to_node`).
"""
_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")


def is_passing(taint: "Taint") -> bool:
    """Whether a taint tells of a state of its node that a new node of the same kind would not have."""
    return taint.key in GOING_TAINTS or taint.key.startswith(_PASSING)


BINDING_FAILED_TAINT: Final = "dovetail.dev/binding-failed"
"""
Key of the taint of a device whose binding conditions failed. The scheduler keeps the taint; it is not in the API. Only
a toleration with this key tolerates it, so that a pod that tolerates everything does not get the device over and over.
"""

SUSPECT_TAINT: Final = "dovetail.dev/suspect"
"""
Key of the taint (effect None) of a device on which pods failed or that was reported unhealthy. The scheduler keeps the
taint; it is not in the API. It excludes no pod: such devices are allocated last.
"""

UNREADABLE_TAINT: Final = "dovetail.dev/unreadable"
"""
Key of the taint of devices that a claim with an undecodable allocation may hold, or that a DeviceTaintRule with an
undecodable taint selects. The scheduler keeps the taint; it is not in the API. No toleration tolerates it.
"""


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """A taint of a node or device; an unknown effect stays text and excludes no pod."""

    key: str
    value: str = ""
    effect: str
    time_added: str = ""

    def __str__(self) -> str:
        """Write it as kubectl does: `key=value:effect`."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, kw_only=True):
    """A toleration of a pod or of a device request; empty key or effect match all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


_INTEGER: Final = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})", re.ASCII)
"""At most 19 significant digits, because Python refuses to parse thousands of digits."""


def integer(text: str) -> int | None:
    """Read a 64-bit integer as Gt and Lt do; None for any other text."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = int(match["sign"] + match["digits"])
    return number if -(2**63) <= number < 2**63 else None
