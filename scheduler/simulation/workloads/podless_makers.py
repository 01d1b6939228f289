"""
What `dovetail explain` says of an object that makes pods and has none: it is suspended, and who resumes it.

A suspended Job has no pods by definition. Mostly Kueue suspends it until its Workload is admitted; the conditions of
the Workload say what that waits for.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TextIO

from rich.text import Text

from scheduler.placement_check.kueue_objects import PARKED
from scheduler.simulation import explanation_output, fitting, printing
from scheduler.simulation.fitting import Fit
from scheduler.simulation.manifests.fields import Body, entries, is_number, mapping, metadata, spec, text
from scheduler.simulation.workloads.maker_reading import PodMaker
from scheduler.simulation.workloads.pod_templates import owner_of

_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_RESUMED: Final = "If it were resumed now"
_ENDED: Final = frozenset({"Complete", "Completed", "Failed", "Finished", "Succeeded"})
_COUNTS: Final = ("replicas", "parallelism", "completions")
"""Fields of a spec that are 0 where an object makes no pod on purpose."""
_READY: Final = "Ready"


class Podless(NamedTuple):
    """
    An object without pods, named as `Job ml/train`.

    `said` are sentences: the state, and below it what is waited for. `commands` are what to ask next. `workload` is
    the name of its Kueue Workload. `fit` is what a decision would do with its pods; None where that is not known.
    """

    name: str
    is_suspended: bool
    waits: bool
    said: tuple[str, ...]
    commands: tuple[str, ...] = ()
    workload: str = ""
    fit: Fit | None = None


def of_maker(name: str, found: PodMaker) -> Podless:
    """Say why an object that exists has no pods."""
    body = found.body or {}
    if _is_suspended(body):
        return _suspended(name, body, found)
    if why := _why_none(body):
        return Podless(name, is_suspended=False, waits=False, said=(f"{name} has no pods: {why}.",))
    kind, short, space = _words(body)
    said = (f"{name} has no pods: its controller has made none yet.", *_condition(body, "ReplicaFailure", "True"))
    describe = f"kubectl describe {kind} {short} -n {space} has its events"
    return Podless(name, is_suspended=False, waits=True, said=said, commands=(describe,))


def _why_none(body: Body) -> str:
    """Say why an object has no pods and none is to come; "" where its controller is to make some."""
    if ended := next((kind for kind, each in _conditions(body).items() if kind in _ENDED and _is_true(each)), ""):
        return f"it has ended ({ended})"
    for field in _COUNTS:
        if is_number(found := spec(body).get(field)) and not found:
            return f"spec.{field} is 0"
    if body.get("kind") == "CronJob":
        return f"it makes a Job at its next time ({text(spec(body).get('schedule'))})"
    return ""


def _suspended(name: str, body: Body, found: PodMaker) -> Podless:
    """Say who resumes a suspended object, and what that waits for."""
    kind, short, space = _words(body)
    asked = f"kubectl get {kind} {short} -n {space} -o yaml | dovetail fit -f - says where its pods would start"
    first, *rest = _who_resumes(body, found)
    return Podless(
        name,
        is_suspended=True,
        waits=True,
        said=(f"{name} is suspended, so it has no pods. {first}", *rest),
        commands=(asked,),
        workload=text(metadata(found.workload or {}).get("name")),
    )


def _who_resumes(body: Body, found: PodMaker) -> Iterator[str]:
    """Yield who resumes a suspended object, then what that waits for."""
    queue = text(mapping(metadata(body).get("labels")).get(_QUEUE))
    if (owner := owner_of(body)) is not None and found.workload is None:
        kind, space, title = owner
        yield f"{kind} {space}/{title} has made it, and resumes it: dovetail explain {kind.lower()}/{title} -n {space}"
    elif found.workload is not None:
        yield from _of_workload(found.workload, queue)
    elif found.forbidden:
        right = f"you may not list {found.forbidden[0]}"
        yield f"Kueue resumes it from queue {queue}: {right}." if queue else f"Whether Kueue resumes it, {right}."
    elif queue:
        yield f"Its label names queue {queue} of Kueue, which has no Workload for it: Kueue does not run or manage it."
    else:
        yield "It has no queue of Kueue: whoever has set spec.suspend has to resume it."


def _of_workload(workload: Body, queue: str) -> Iterator[str]:
    """Yield what a Workload waits for, and what Kueue says of that."""
    title, queue = text(metadata(workload).get("name")), text(spec(workload).get("queueName")) or queue
    conditions = _conditions(workload)
    of_queue = f"Workload {title} of queue {queue}" if queue else f"Workload {title}"
    if spec(workload).get("active") is False:
        parked = text(mapping(metadata(workload).get("annotations")).get(PARKED))
        by = "Dovetail has parked it, and activates it once it fits" if parked else "set spec.active: true to queue it"
        yield f"Kueue does not queue it: its {of_queue} is not active ({by})."
        yield from _condition(workload, "Evicted", "True")
        yield from _checks(workload)
    elif _is_true(conditions.get("Admitted")):
        yield f"Kueue has admitted its {of_queue}, and resumes it."
    elif _is_true(conditions.get("QuotaReserved")):
        yield f"Its {of_queue} has quota, and Kueue resumes it once all admission checks are Ready:"
        yield from _checks(workload)
    else:
        yield f"Kueue resumes it once its {of_queue} has quota."
        yield from _condition(workload, "QuotaReserved", "False")
        yield from _condition(workload, "Evicted", "True")


def _conditions(body: Body) -> dict[str, Body]:
    """Return the conditions of an object by their types."""
    return {text(each.get("type")): each for _, each in entries(mapping(body.get("status")).get("conditions"))}


def _is_true(condition: Body | None) -> bool:
    return mapping(condition).get("status") == "True"


def _condition(body: Body, kind: str, status: str) -> Iterator[str]:
    """Yield a condition as it is written, if it has this status and says something."""
    found = mapping(_conditions(body).get(kind))
    if found.get("status") == status and text(found.get("message")):
        yield f"{kind}={status} ({text(found.get('reason'))}): {text(found.get('message'))}"


def _checks(workload: Body) -> Iterator[str]:
    """Yield the admission checks that are not Ready."""
    for _, each in entries(mapping(workload.get("status")).get("admissionChecks")):
        if each.get("state") != _READY:
            message = f": {text(each.get('message'))}" if text(each.get("message")) else ""
            yield f"admission check {text(each.get('name'))} is {text(each.get('state'))}{message}"


def _is_suspended(body: Body) -> bool:
    return True in (spec(body).get("suspend"), mapping(spec(body).get("runPolicy")).get("suspend"))


def _words(body: Body) -> tuple[str, str, str]:
    """Return kind, name and namespace of an object as kubectl takes them."""
    found = metadata(body)
    return text(body.get("kind")).lower(), text(found.get("name")), text(found.get("namespace"))


def show(found: Podless, to: TextIO) -> None:
    """Print the state, what is waited for, what a decision would do now, and what to ask next."""
    console = printing.console(to, width=explanation_output.WIDTH, most=explanation_output.WIDTH)
    state, *rest = printing.visible(found.said)
    printing.sentence(console, state)
    for each in rest:
        printing.sentence(console, Text(each, "yellow"), indent=explanation_output.HANG, hang=explanation_output.HANG)
    if found.fit is not None:
        printing.sentence(console, printing.visible(f"{_RESUMED}: {fitting.sentence(found.fit)}"))
    for each in printing.visible(found.commands):
        printing.arrow(console, each)


def document(found: Podless) -> dict[str, Any]:
    """Convert the answer to plain values."""
    return {
        "owner": found.name,
        "waits": found.waits,
        "suspended": found.is_suspended,
        "message": " ".join(found.said),
        "kueueWorkload": found.workload or None,
        "fit": None if found.fit is None else fitting.document(found.fit, 1),
    }
