"""Label selectors (meta/v1 LabelSelector): a relation between objects and the labels of pods and namespaces."""

from collections.abc import Collection, Mapping
from enum import StrEnum

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
