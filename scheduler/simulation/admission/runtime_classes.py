"""What the admission plugin RuntimeClass adds to a pod: overhead, a node selector and tolerations."""

from collections.abc import Iterator

from scheduler.simulation.admission.pod_totals import read_amounts
from scheduler.simulation.manifests.fields import Body, FieldError, entries, is_number, mapping, metadata, spec, text


def apply(pod: Body, runtime_class: Body) -> Iterator[FieldError]:
    """Add what a class has to a pod; return what contradicts it."""
    name, terms = text(metadata(runtime_class).get("name")), spec(pod)
    overhead = mapping(mapping(runtime_class.get("overhead")).get("podFixed"))
    yield from overhead_error(pod, overhead, name)
    if overhead and not terms.get("overhead"):
        terms["overhead"] = {key: str(value) for key, value in overhead.items()}
    scheduling = mapping(runtime_class.get("scheduling"))
    selector, own = mapping(scheduling.get("nodeSelector")), mapping(terms.get("nodeSelector"))
    for key, value in selector.items():
        if own.get(key, value) != value:
            message = f"is {own[key]}, and RuntimeClass {name} selects nodes with {value}: leave it out"
            yield FieldError(f"spec.nodeSelector[{key}]", message)
    if selector:
        terms["nodeSelector"] = {**selector, **own}
    added = [each for _, each in entries(scheduling.get("tolerations"))]
    if added:
        terms["tolerations"] = _merged([*(each for _, each in entries(terms.get("tolerations"))), *added])


def _merged(tolerations: list[Body]) -> list[Body]:
    """Leave out tolerations that another one covers; of equal ones the first stays (MergeTolerations)."""
    return [
        each
        for index, each in enumerate(tolerations)
        if each not in tolerations[:index] and not any(_covers(other, each) for other in tolerations if other != each)
    ]


def _covers(wide: Body, narrow: Body) -> bool:
    """Whether whatever one toleration tolerates, the other tolerates too, and as long (isSuperset)."""
    operator, most = wide.get("operator") or "Equal", wide.get("tolerationSeconds")
    if wide.get("key") != narrow.get("key") and (wide.get("key") or operator != "Exists"):
        return False
    if wide.get("effect") and wide.get("effect") != narrow.get("effect"):
        return False
    if wide.get("effect") == "NoExecute" and most is not None:
        least = narrow.get("tolerationSeconds")
        if not is_number(most) or not is_number(least) or least > most:
            return False
    is_equal = (narrow.get("operator") or "Equal") == "Equal" and wide.get("value") == narrow.get("value")
    return operator == "Exists" or (operator == "Equal" and is_equal)


def overhead_error(pod: Body, overhead: Body, name: str) -> Iterator[FieldError]:
    """Return the error of an overhead that is not that of the pod's class (with the name "": it names none)."""
    own = spec(pod).get("overhead")
    if own and read_amounts(own) != read_amounts(overhead):
        says = f"is not that of RuntimeClass {name}" if name else "is set, and no RuntimeClass is named"
        yield FieldError("spec.overhead", f"{says}: leave it out, the class sets it")
