"""DeviceQuotas (dovetail.dev) as values: what they say, the tree that they form, what a claim counts."""

from solver.domain.quotas.device_quota import (
    ClaimCharge,
    DeviceQuota,
    QuotaCharges,
    QuotaError,
    QuotaKey,
    QuotaResource,
    QuotaShape,
    WithdrawnDevice,
)
from solver.domain.quotas.quota_state import QuotaFleet, QuotaState, ResourceState, WaitingPods, quota_states
from solver.domain.quotas.quota_tree import QuotaFinding, QuotaTree

__all__ = [
    "ClaimCharge",
    "DeviceQuota",
    "QuotaCharges",
    "QuotaError",
    "QuotaFinding",
    "QuotaFleet",
    "QuotaKey",
    "QuotaResource",
    "QuotaShape",
    "QuotaState",
    "QuotaTree",
    "ResourceState",
    "WaitingPods",
    "WithdrawnDevice",
    "quota_states",
]
