"""The amounts that containers and pods may ask for, as the API server has it (`validateResourceRequirements`)."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from scheduler.simulation.manifests import formats
from scheduler.simulation.manifests.fields import Body, FieldError, entries, mapping
from solver.domain.quantity import NANO, Quantity, QuantityError, parse

_HUGE: Final = "hugepages-"
_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_PODS: Final = frozenset({"cpu", "memory"})
_LIMITS: Final = ("limits", "requests")


def of_container(resources: Body) -> Iterator[FieldError]:
    """Return the errors in `resources` of a container; paths begin below it."""
    yield from _of(resources, of_name)


def of_pod(pod: Body) -> Iterator[FieldError]:
    """Return the errors in `resources` of a pod's spec (KEP-2837): few names, and enough for its containers."""
    resources = mapping(pod.get("resources"))
    yield from _of(resources, _of_pod_name)
    limits = read_amounts(mapping(resources.get("limits")))
    containers = [mapping(container.get("resources")) for _, container in entries(pod.get("containers"))]
    own = [tuple(read_amounts(mapping(each.get(kind))) for kind in ("requests", "limits")) for each in containers]
    for name, amount in read_amounts(mapping(resources.get("requests"))).items():
        # a container's limit counts where it requests nothing
        asked = (requests.get(name, most.get(name)) for requests, most in own)
        if sum(each.nano for each in asked if each is not None) > amount.nano:
            yield FieldError(
                f"requests[{name}]", f"is {amount}, less than its containers request: write at least as much"
            )
    for _, most in own:
        above = [name for name, limit in limits.items() if name in most and most[name].nano > limit.nano]
        yield from (
            FieldError(f"limits[{name}]", "is below the limit of a container: write at least as much") for name in above
        )


def of_name(name: str) -> str:
    """Say what is wrong with the name of a resource of a container; "" where nothing is."""
    if wrong := formats.label_key(name):
        return wrong
    if "/" not in name and name not in _OF_CONTAINERS and not name.startswith(_HUGE):
        return (
            f"write {', '.join(sorted(_OF_CONTAINERS))}, {_HUGE}<size> or a name with a domain, such as example.com/gpu"
        )
    return "" if formats.is_native(name) else formats.extended_resource(name)


def _of_pod_name(name: str) -> str:
    is_known = name in _OF_PODS or name.startswith(_HUGE)
    return "" if is_known else f"a pod as a whole has only cpu, memory and {_HUGE}<size>: write it in its containers"


def _of(resources: Body, is_named: Callable[[str], str]) -> Iterator[FieldError]:
    amounts = {kind: read_amounts(mapping(resources.get(kind))) for kind in _LIMITS}
    for kind in _LIMITS:
        for name, amount in amounts[kind].items():
            if wrong := is_named(name) or _of_amount(name, amount):
                yield FieldError(f"{kind}[{name}]", wrong)
    for name, amount in amounts["requests"].items():
        if wrong := _against_limit(name, amount, amounts["limits"].get(name)):
            yield FieldError(f"requests[{name}]", wrong)
    asked = {*amounts["limits"], *amounts["requests"]}
    if any(name.startswith(_HUGE) for name in asked) and not asked & _OF_PODS:
        yield FieldError("requests", "huge pages need cpu or memory beside them: write one")


def read_amounts(given: Body) -> dict[str, Quantity]:
    """Read amounts by resource, without those that are no quantities."""
    found = {}
    for name, amount in given.items():
        try:
            found[name] = parse(str(amount).strip())
        except QuantityError:
            continue  # strict field validation says so
    return found


def _of_amount(name: str, amount: Quantity) -> str:
    if amount.nano < 0:
        return f"is {amount}: write 0 or more"
    if formats.is_extended(name) and amount.nano % NANO:
        return f"is {amount}: an extended resource is a whole number"
    size = _parsed(name.removeprefix(_HUGE)) if name.startswith(_HUGE) else None
    if size is not None and size.nano > 0 and amount.nano % size.nano:
        return f"is {amount}: write a multiple of {size}"
    return ""


def _parsed(text: Any) -> Quantity | None:
    try:
        return parse(str(text))
    except QuantityError:
        return None


def _against_limit(name: str, amount: Quantity, limit: Quantity | None) -> str:
    is_overcommitted = formats.is_overcommitted(name)
    if limit is None:
        return (
            ""
            if is_overcommitted
            else f"has no limit: write limits: {{{name}: {amount}}} (the request may be left out)"
        )
    if not is_overcommitted and amount.nano != limit.nano:
        return f"is {amount}, and the limit is {limit}: both must be equal"
    return f"is {amount}, above the limit of {limit}: write at most the limit" if amount.nano > limit.nano else ""
