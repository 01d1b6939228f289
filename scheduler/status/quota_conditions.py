"""The status of DeviceQuotas (dovetail.dev/v1alpha1): what the leader says of each, and the writes of it."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.kube import encode
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.errors import Conflict, DecodeError, Invalid
from scheduler.kube.writes import WRITE_SECONDS
from solver.domain import QuotaState, ResourceState

KIND: Final = "DeviceQuota"
VALID: Final = "Valid"
"""The condition that is False where something contradicts."""
ENFORCED: Final = "GuaranteesEnforced"
"""The condition that is False where a guarantee waits until pods end, because no profile may reclaim."""
MET: Final = "GuaranteesMet"
"""The condition that is False while pods wait and less than the guarantee is held."""
_MOST_TEXT: Final = 32 * 1024


class _Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class StatusResource(_Struct, frozen=True, kw_only=True):
    """One of `status.resources`; amounts as they are written in the spec, `waiting` pods."""

    device_class: str
    capacity: str = ""
    shape: str = "devices"
    held: str
    lent: str
    waiting: int


class StatusCondition(_Struct, frozen=True, kw_only=True):
    """A metav1.Condition."""

    type: str
    status: str
    observed_generation: int = 0
    last_transition_time: str = ""
    reason: str
    message: str


class QuotaStatus(_Struct, frozen=True, kw_only=True):
    """The status as it is written."""

    observed_generation: int = 0
    resources: tuple[StatusResource, ...] = ()
    conditions: tuple[StatusCondition, ...] = ()


class _Metadata(_Struct, frozen=True, kw_only=True):
    uid: str = ""


class _Quota(_Struct, frozen=True, kw_only=True):
    metadata: _Metadata = _Metadata()
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _List(msgspec.Struct, frozen=True):
    items: tuple[_Quota, ...] = ()


_list = msgspec.json.Decoder(_List)
_status = msgspec.json.Decoder(QuotaStatus)


def status_of(state: QuotaState, *, may_reclaim: bool, before: QuotaStatus | None, now: dt.datetime) -> QuotaStatus:
    """Return the status of a quota; a condition that stays as it was keeps its time of `before`."""
    resources = tuple(
        StatusResource(
            device_class=each.key.device_class,
            capacity=each.key.capacity,
            shape=each.key.shape,
            held=each.key.amount(each.held),
            lent=each.key.amount(each.lent),
            waiting=each.waiting,
        )
        for each in state.resources
    )
    old = {each.type: each for each in before.conditions} if before is not None else {}
    conditions = []
    for kind, is_true, reason, message in _conditions(state, may_reclaim=may_reclaim):
        status = str(is_true)
        last = old.get(kind)
        is_same = last is not None and last.status == status and last.last_transition_time
        conditions.append(
            StatusCondition(
                type=kind,
                status=status,
                observed_generation=state.generation,
                last_transition_time=last.last_transition_time
                if last is not None and is_same
                else encode.timestamp(now),
                reason=reason,
                message=message[:_MOST_TEXT],
            )
        )
    return QuotaStatus(observed_generation=state.generation, resources=resources, conditions=tuple(conditions))


def _conditions(state: QuotaState, *, may_reclaim: bool) -> list[tuple[str, bool, str, str]]:
    """Return type, status, reason and message of the conditions of a quota."""
    first = next(iter(state.findings), None)
    said = "; ".join(each.message for each in state.findings) or "nothing contradicts it"
    found = [(VALID, first is None, "Consistent" if first is None else first.reason, said)]
    if not state.has_guarantee:
        return found
    if may_reclaim:
        found.append((ENFORCED, True, "ReclaimEnabled", "pods that borrow are evicted for it"))
    else:
        message = "no profile has preemption.reclaim.enabled: a guarantee waits until pods that borrow end"
        found.append((ENFORCED, False, "ReclaimDisabled", message))
    short = [each for each in state.resources if each.is_short]
    said = "; ".join(map(_short_of, short)) or "it is held, or nobody waits for it"
    found.append((MET, not short, "PodsWait" if short else "HeldOrUnasked", said))
    return found


def _short_of(each: ResourceState) -> str:
    held, guarantee = each.key.amount(each.held), each.key.amount(each.guarantee)
    return f"{held} of the guaranteed {guarantee} {each.key} are held; pods waiting: {each.waiting}"


async def list_statuses(
    client: Client, collection: str, *, timeout_seconds: float = WRITE_SECONDS
) -> Mapping[str, QuotaStatus]:
    """Return the statuses of all quotas by uid; one that cannot be read is left out. Raises `KubeError`."""
    body = await client.request("GET", collection, timeout_seconds=timeout_seconds)
    try:
        items = _list.decode(body).items
    except msgspec.DecodeError as error:
        raise DecodeError(f"{KIND}List", "", "items", str(error)) from error
    found = {}
    for each in items:
        try:
            found[each.metadata.uid] = _status.decode(each.status)
        except msgspec.DecodeError:  # it is written anew
            continue
    return found


async def write_status(
    client: Client, path: str, uid: str, status: QuotaStatus, *, timeout_seconds: float = WRITE_SECONDS
) -> None:
    """
    Replace what we say in the status of a quota, `path`; fields that we do not know stay.

    Raises `Conflict` where the quota of this name has another uid.
    """
    body = msgspec.json.encode({"metadata": {"uid": uid}, "status": status})
    try:
        await client.request(
            "PATCH", f"{path}/status", body=body, content_type=MERGE_PATCH, timeout_seconds=timeout_seconds
        )
    except Invalid as error:
        if "metadata.uid" not in error.message:
            raise
        raise Conflict(error.status, error.reason, error.message) from error
