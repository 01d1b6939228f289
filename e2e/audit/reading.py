"""Raw JSON as the API server gives it, and what the audit reads of it."""

from fractions import Fraction
from typing import Any, NamedTuple

Json = dict[str, Any]
DeviceKey = tuple[str, str, str]
"""Driver, pool, device."""

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}


class Finding(NamedTuple):
    """Something that is wrong: a word for the rule, the object, and what about it."""

    rule: str
    subject: str
    message: str


class Objects(NamedTuple):
    """What is audited, each a list of decoded objects."""

    pods: list[Json]
    nodes: list[Json]
    claims: list[Json]
    slices: list[Json]
    classes: list[Json]
    namespaces: list[Json] = []  # noqa: RUF012 - never changed
    volumes: list[Json] = []  # noqa: RUF012 - never changed
    volume_claims: list[Json] = []  # noqa: RUF012 - never changed
    volume_limits: list[Json] = []  # noqa: RUF012 - never changed
    groups: list[Json] = []  # noqa: RUF012 - never changed


class Key(NamedTuple):
    """Namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as kubectl's users do."""
        return f"{self.namespace}/{self.name}"


def key_of(value: Json) -> Key:
    """Return an object's namespace and name."""
    return Key(value["metadata"]["namespace"], value["metadata"]["name"])


def results_of(claim: Json) -> list[Json]:
    """Return the results of a claim's allocation."""
    results: list[Json] = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or []
    return results


def device_of(result: Json) -> DeviceKey:
    """Return the device that a result names."""
    return result["driver"], result["pool"], result["device"]


def claims_of(pod: Json) -> list[str]:
    """Return the names of a pod's claims, as far as they are known; without those that it turned out not to need."""
    made = {each["name"]: each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses") or ()}
    entries = pod["spec"].get("resourceClaims") or ()
    names = [each.get("resourceClaimName") or made.get(each["name"], f"(entry {each['name']})") for each in entries]
    names.append((pod["status"].get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return list(dict.fromkeys(name for name in names if name))


def amount_of(quantity: str | float) -> Fraction:
    """Read a Kubernetes quantity exactly."""
    text = str(quantity)
    number = text.rstrip("numkKMGTPEi")
    if "e" in number or "E" in number:
        return Fraction(number)
    return Fraction(number) * SUFFIXES[text[len(number) :]]


def is_scheduled(pod: Json) -> bool:
    """Say whether a scheduler has bound a pod. A pod's author may put it anywhere, by `spec.nodeName`."""
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()}
    return holds_node(pod) and conditions.get("PodScheduled") == "True"


def holds_node(pod: Json) -> bool:
    """Say whether a pod is bound and has not finished."""
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in {"Succeeded", "Failed"}
