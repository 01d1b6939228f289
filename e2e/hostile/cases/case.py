"""A case, the list of all of them, and the objects that they are made of."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from e2e.hostile.objects.kinds import GPU_CLASS, NAMESPACE, SCHEDULER

Manifest = dict[str, Any]
Rights = Literal["tenant", "driver"]
Disturbance = Literal["", "restart", "relist"]
SPECIAL: Final = "special"
"""Label and taint of the nodes that no good pod of the stream goes to."""


class Hands(Protocol):
    """What a case may do: requests that are refused are counted, and stop nothing."""

    @property
    def nodes(self) -> int:
        """The number of nodes of the fleet, `gpu-0000` and so on."""

    async def make(self, *manifests: Manifest) -> None:
        """Create objects."""

    async def many(self, count: int, manifest: Callable[[int], Manifest]) -> None:
        """Create so many objects, several at once."""

    async def patch(self, manifest: Manifest, body: Manifest, subresource: str = "") -> None:
        """Send a merge patch."""

    async def remove(self, manifest: Manifest) -> None:
        """Delete an object."""

    async def pause(self, seconds: float) -> None:
        """Wait."""

    async def repeat(self, per_second: float, step: Callable[[int], Awaitable[None]]) -> None:
        """Do something again and again, so many times a second, until the case ends."""


Act = Callable[[Hands], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One thing that a tenant or a driver does.

    `rights` are those of the account that does it. `probe` names the question of `probes` that is asked meanwhile,
    besides how long good pods wait. `disturbance` is what happens to Dovetail while the objects of the case exist.
    """

    name: str
    about: str
    act: Act
    rights: Rights = "tenant"
    probe: str = ""
    disturbance: Disturbance = ""


CASES: Final[dict[str, Case]] = {}
"""All cases by name, in the order of the table."""


def case(
    name: str, about: str, *, rights: Rights = "tenant", probe: str = "", also: Sequence[Disturbance] = ()
) -> Callable[[Act], Act]:
    """Make the decorated function a case, and `NAME-restart` or `NAME-relist` another one of each disturbance."""

    def add(act: Act) -> Act:
        CASES[name] = Case(name=name, about=about, act=act, rights=rights, probe=probe)
        for each in also:
            told = f"{about}; with a {each}"
            CASES[f"{name}-{each}"] = Case(
                name=f"{name}-{each}", about=told, act=act, rights=rights, probe=probe, disturbance=each
            )
        return act

    return add


def pod(
    name: str,
    *,
    claims: tuple[str, ...] = (),
    requests: Manifest | None = None,
    labels: Manifest | None = None,
    annotations: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """Make a pod that uses claims of these names and asks for one millicore unless told otherwise."""
    resources: Manifest = {"requests": requests or {"cpu": "1m"}, "claims": [{"name": each} for each in claims]}
    limits = {name: amount for name, amount in resources["requests"].items() if "/" in name}
    if limits:
        resources["limits"] = limits
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/none", "resources": resources}],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            **spec,
        },
    }


def claim(name: str, *requests: Manifest, **devices: Any) -> Manifest:
    """Make a claim; without requests it asks for one GPU."""
    wanted = list(requests) or [request("r0")]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": wanted, **devices}},
    }


def request(name: str, *selectors: str, device_class: str = GPU_CLASS, **fields: Any) -> Manifest:
    """Make a request with selectors."""
    chosen = [{"cel": {"expression": each}} for each in selectors]
    return {"name": name, "exactly": {"deviceClassName": device_class, "selectors": chosen, **fields}}


def with_claim(name: str, *requests: Manifest, **devices: Any) -> tuple[Manifest, Manifest]:
    """Make a claim and the pod that uses it."""
    return claim(name, *requests, **devices), pod(name, claims=(name,))
