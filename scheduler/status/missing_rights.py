"""Features that are off because the scheduler's account lacks rights: in the log, a check and conditions."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from scheduler.features import BY_RIGHTS, Feature, MissingFeature
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.observe import logs
from scheduler.observe.health import Health
from solver.domain import COSCHEDULING_GROUP, SCHEDULING_GROUP, Pod, Policy, Reason, ReasonCode, wording

_POD_GROUPS: Final = frozenset({SCHEDULING_GROUP, COSCHEDULING_GROUP})

_log: Final = logs.logger()


def with_missing_rights(pod: Pod, reasons: Sequence[Reason], missing: Iterable[MissingFeature]) -> Sequence[Reason]:
    """Return the reasons of a pod, with a hint behind those that follow from a missing feature."""
    hints = {each.feature: str(each) for each in missing}
    return [
        replace(each, message=f"{each.message}{wording.HINT}{hints[feature]}") if feature in hints else each
        for each in reasons
        for feature in (_feature(pod, each),)
    ]


def possible(policy: Policy, served: DiscoveredKinds) -> Policy:
    """Return a policy without what the account has no rights for: eviction, and the budgets that limit it."""
    if not served.lacks(Feature.PREEMPTION):
        return policy
    return replace(policy, preemption=replace(policy.preemption, is_enabled=False))


class FeatureReport:
    """Reports missing features: `/readyz?verbose` has the check `rights`, the log one line for each feature."""

    def __init__(self, health: Health) -> None:
        self._health: Final = health
        self._reported: tuple[MissingFeature, ...] = ()

    def report(self, served: DiscoveredKinds) -> None:
        """Set the check; log what is missing each time it changes."""
        check, needed = self._health.ready("rights"), [each for each in served.missing if each.feature not in BY_RIGHTS]
        if needed:
            check.degrade("; ".join(map(str, needed)))
        else:
            check.succeed()
        for each in served.missing if served.missing != self._reported else ():
            tell = _log.info if each.feature in BY_RIGHTS else _log.warning
            tell(logs.RIGHT_MISSING, feature=each.feature, message=str(each))
        self._reported = served.missing


def _feature(pod: Pod, reason: Reason) -> Feature | None:
    """Return the feature without which an object that exists is not known."""
    if reason.code is ReasonCode.VOLUME_CLAIM_MISSING:
        return Feature.VOLUMES
    is_of_group = pod.gang is not None and pod.gang.source in _POD_GROUPS
    return Feature.POD_GROUPS if reason.code is ReasonCode.GANG_INCOMPLETE and is_of_group else None
