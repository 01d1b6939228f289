"""Reads RepairPlans of a cluster with the caller's credentials, and writes what the caller decides about one."""

import msgspec

from scheduler.kube import repair_plans
from scheduler.kube.access import ClusterAccess
from scheduler.kube.client import Client
from scheduler.kube.errors import Forbidden, KubeError, NotFound
from scheduler.kube.repair_plans import PlanDecision, RepairPlan
from solver.domain import wording

_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _User = _User()


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def listed(access: ClusterAccess) -> tuple[RepairPlan, ...]:
    """List all plans. Raise `KubeError`."""
    async with access.connect() as client:
        return await _listed(client)


async def one(access: ClusterAccess, name: str) -> RepairPlan:
    """Read one plan. Raise `KubeError`."""
    async with access.connect() as client:
        try:
            return await repair_plans.read_plan(client, name)
        except NotFound as error:
            raise await _unknown(client, name) from error


async def decided(access: ClusterAccess, name: str, decision: str) -> RepairPlan:
    """Write the caller's decision about a plan. Raise `KubeError`."""
    async with access.connect() as client:
        own_name = await _own_name(client)
        try:
            return await repair_plans.decide(client, name, PlanDecision(decision), own_name)
        except NotFound as error:
            raise await _unknown(client, name) from error


async def _listed(client: Client) -> tuple[RepairPlan, ...]:
    try:
        return await repair_plans.list_plans(client)
    except NotFound as error:
        raise KubeError("the cluster has no RepairPlans: deploy/components/repair defines them") from error


async def _unknown(client: Client, name: str) -> KubeError:
    """Say that there is no plan of a name, and which one may be meant."""
    try:
        near = wording.did_you_mean(name, [plan.name for plan in await _listed(client)])
    except Forbidden:
        near = ""
    return KubeError(f"there is no RepairPlan {name}{near}")


async def _own_name(client: Client) -> str:
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    answer = await client.request("POST", _REVIEWS, body=body)
    return msgspec.json.decode(answer, type=_Review).status.user_info.username
