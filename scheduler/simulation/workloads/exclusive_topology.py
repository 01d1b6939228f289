"""
One group of pods for each domain of a topology, as JobSet and LeaderWorkerSet make it.

Their webhooks give the leader affinity to its own group and anti-affinity to all others, and its followers the node
selector of the domain where the leader runs. Here all pods of the group have the leader's rules, which says the same
before anything runs.
"""

from typing import Final

from scheduler.simulation.manifests.fields import Body, mapping

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def add_terms(pod: Body, topology: str, label: str, value: str, *, in_all_namespaces: bool = False) -> None:
    """Keep a pod in the domain of the pods with its value of a label, and away from pods with other values."""
    others = [
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": [value]},
    ]
    rules = {"podAffinity": [{"key": label, "operator": "In", "values": [value]}], "podAntiAffinity": others}
    affinity = {**mapping(pod.get("affinity"))}
    for kind, expressions in rules.items():
        term: Body = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}
        if in_all_namespaces:
            term["namespaceSelector"] = {}
        own = mapping(affinity.get(kind))
        affinity[kind] = {**own, _REQUIRED: [*(own.get(_REQUIRED) or ()), term]}
    pod["affinity"] = affinity
