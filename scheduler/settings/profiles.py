"""Profiles: a scheduler name, and how the pods of that name are placed."""

from typing import Annotated

from msgspec import Meta

from scheduler.settings.expected_pods import ExpectedPods
from scheduler.settings.policies import PlacedName, PolicyName, PreemptionSettings, Section, WeightSettings

Name = Annotated[str, Meta(max_length=253, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")]


class Profile(Section, frozen=True):
    """One scheduler name and how its pods are placed."""

    scheduler_name: Name = "dovetail"
    """The `spec.schedulerName` of the pods that this profile schedules. Pods with other names are only counted."""

    policy: PolicyName = PolicyName.PACK
    """Which of several valid plans is best."""

    placed: PlacedName = PlacedName.PODS
    """Whether as many pods as possible get a place, or as many devices as possible are given out."""

    weights: WeightSettings = WeightSettings()
    """Weights of preferences and scores, from 0 to 100."""

    preemption: PreemptionSettings = PreemptionSettings()
    """Whether pods of lower priority are evicted."""

    expected_pods: tuple[ExpectedPods, ...] = ()
    """The pods that are likely to come (policies `pack` and `topology`): others leave them room. docs/policies.md."""
