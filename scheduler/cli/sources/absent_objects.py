"""What to say where the pod or gang of a command does not exist: what is there, and what may be meant."""

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cli.arguments import UsageError
from scheduler.cli.sources.targets import Target, TargetKind
from solver.domain import Pod, wording

if TYPE_CHECKING:
    from scheduler.kube.access import ClusterAccess

_MOST_NAMES: Final = 4


class KnownObjects(NamedTuple):
    """The pods of a cluster, names of PodGroups by namespace, and the namespaces (empty: not known)."""

    pods: tuple[Pod, ...] = ()
    groups: tuple[tuple[str, str], ...] = ()
    namespaces: frozenset[str] = frozenset()


def absent(target: Target, known: KnownObjects) -> str:
    """Say that a target does not exist, or its namespace, and name what may be meant."""
    if missing := missing_namespace(target.namespace, known):
        return missing
    if target.kind is TargetKind.POD_GROUP:
        gangs = [pod.gang[:2] for pod in known.pods if pod.gang is not None]
        names = sorted({name for namespace, name in (*gangs, *known.groups) if namespace == target.namespace})
        there = f"gangs of the namespace: {wording.shortened(names, _MOST_NAMES)}" if names else "there is none in it"
        return f"{target} does not exist, and no pod names it{wording.did_you_mean(target.name, names) or f'; {there}'}"
    names = sorted(pod.id.name for pod in known.pods if pod.id.namespace == target.namespace)
    made = [
        pod.id.name
        for pod in known.pods
        if pod.id.namespace == target.namespace
        and pod.controller is not None
        and pod.id.name.startswith(f"{target.name}-")
    ]
    if made:
        return f"{target} does not exist, but pods with names that begin so: {wording.shortened(made, _MOST_NAMES)}"
    elsewhere = sorted({pod.id.namespace for pod in known.pods if pod.id.name == target.name})
    if elsewhere:
        return f"{target} does not exist; one of its name is in namespace {wording.shortened(elsewhere, _MOST_NAMES)}"
    return f"{target} does not exist{wording.did_you_mean(target.name, names)}"


def absence(target: Target, access: "ClusterAccess") -> str:
    """
    Say that a pod, a claim or a namespace of a live cluster does not exist; "" where it does, or may not be listed.

    For commands whose answer is empty: they ask only then.
    """
    from scheduler.change import Kind  # noqa: PLC0415 - the cluster's client takes a while to import
    from scheduler.kube.errors import KubeError  # noqa: PLC0415 - as above
    from scheduler.simulation import live_cluster  # noqa: PLC0415 - as above

    kind = {TargetKind.POD: Kind.PODS, TargetKind.CLAIM: Kind.CLAIMS}.get(target.kind, Kind.NAMESPACES)
    try:
        found = live_cluster.fetch(access, tuple({kind, Kind.NAMESPACES}))
    except KubeError:
        return ""
    namespaces = frozenset(change.key for change in found.changes if change.kind is Kind.NAMESPACES)
    missing = missing_namespace(target.namespace or target.name, KnownObjects(namespaces=namespaces))
    if missing or kind is Kind.NAMESPACES:
        return missing
    there = {change.key: change.value for change in found.changes if change.kind is kind}
    if kind in found.forbidden or found.warnings or f"{target.namespace}/{target.name}" in there:
        return ""
    if kind is Kind.PODS:
        return absent(
            target, KnownObjects(tuple(each for each in there.values() if isinstance(each, Pod)), (), namespaces)
        )
    names = (key.partition("/")[2] for key in there if key.partition("/")[0] == target.namespace)
    return f"{target} does not exist{wording.did_you_mean(target.name, names)}"


def refuse_missing_namespace(name: str, access: "ClusterAccess") -> None:
    """Raise `UsageError` where a namespace does not exist; not where it may not be listed."""
    if missing := absence(Target(TargetKind.NAMESPACE, "", name), access):
        raise UsageError(missing)


def near_owner(target: Target, known: KnownObjects) -> str:
    """Name the objects with pods that may be meant by one that makes pods and has none; "" without such."""
    there = (pod.workload.partition(" ") for pod in known.pods if pod.id.namespace == target.namespace)
    return wording.did_you_mean(target.name, sorted({name for kind, _, name in there if kind == target.owner}))


def missing_namespace(name: str, known: KnownObjects) -> str:
    """Say that a namespace does not exist; "" where it does, or is not known."""
    if not known.namespaces or name in known.namespaces:
        return ""
    return f"namespace {name} does not exist{wording.did_you_mean(name, known.namespaces)}"
