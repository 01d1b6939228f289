"""Node selectors, tolerations and taints: relations between objects and nodes, as the core API defines them.

Label selectors (meta/v1 LabelSelector): a relation between objects and the labels of pods and namespaces.
"""

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
    """Whether a label's value (None: there is no such label) meets one operator; node selectors share these four."""
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
    """meta/v1 LabelSelectorRequirement; an operator that is not known holds for nothing."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether it holds for an object with these labels."""
        return is_met(self.operator, labels.get(self.key), self.values)


class LabelSelector(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """
    meta/v1 LabelSelector: all requirements hold; without any it selects everything.

    `matchLabels` are `In` requirements here. A selector that is absent (None where one is expected) selects nothing.
    """

    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects an object with these labels."""
        return all(each.holds(labels) for each in self.requirements)

    @property
    def keys(self) -> tuple[str, ...]:
        """The labels that it looks at, each once."""
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
