"""Hard rules between the pods of a problem."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from solver.rules.forms.gang_rules import GangRule
from solver.rules.forms.inter_pod import InterPodRules
from solver.rules.forms.limits import Limit
from solver.rules.quotas.bound_resources import NO_QUOTAS, QuotaLimits


@dataclass(frozen=True, slots=True, eq=False)
class PodRules:
    """
    Hard rules between pods: amounts per domain, gangs, pod affinity, anti-affinity and topology spread, and quotas.

    `reserved` are, by class, the nodes that only a reservation for other pods keeps from its pods.
    """

    limits: tuple[Limit, ...] = ()
    gangs: tuple[GangRule, ...] = ()
    inter_pod: InterPodRules = field(default_factory=InterPodRules)
    reserved: Mapping[int, frozenset[int]] = field(default_factory=dict)
    quotas: QuotaLimits = NO_QUOTAS
    limited: frozenset[int] = field(init=False)
    """The classes that some limit counts."""
    in_gangs: frozenset[int] = field(init=False)
    """The classes of all gangs: asked of every class at every step of a search, and gangs are hundreds."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "limited", frozenset(chain.from_iterable(each.takes for each in self.limits)))
        object.__setattr__(self, "in_gangs", frozenset(chain.from_iterable(each.classes for each in self.gangs)))
