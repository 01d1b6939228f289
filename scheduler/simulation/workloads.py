"""The pods that controllers would make of Deployments, ReplicaSets, StatefulSets and Jobs."""

import copy
from typing import Any, Final

from scheduler.simulation.fields import Body, mapping, metadata, spec, text

KINDS: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job"})


def pods(body: Body) -> list[Body]:
    """Give the pods of a workload, named after it with a number each."""
    workload = spec(body)
    template = mapping(workload.get("template"))
    namespace, name = metadata(body).get("namespace") or "default", text(metadata(body).get("name"))
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **copy.deepcopy(mapping(template.get("metadata"))),
                "namespace": namespace,
                "name": f"{name}-{index}",
            },
            "spec": copy.deepcopy(template.get("spec", {})),
        }
        for index in range(_count(body, workload))
    ]


def _count(body: Body, workload: Body) -> int:
    if body.get("kind") != "Job":
        return _number(workload.get("replicas"))
    if workload.get("suspend") is True:
        return 0
    return min(_number(workload.get("parallelism")), _number(workload.get("completions"), 2**31))


def _number(value: Any, default: int = 1) -> int:
    return value if isinstance(value, int) and value >= 0 else default
