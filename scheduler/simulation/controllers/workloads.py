"""The pods that controllers would make of Deployments, ReplicaSets, StatefulSets and Jobs."""

import copy
from collections.abc import Iterator
from typing import Any, Final

from scheduler.simulation.controllers import storage
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.manifests.fields import Body, mapping, metadata, spec, text

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
        for index in range(count(body))
    ]


def documents(workload: Document) -> Iterator[Document]:
    """Give the pods of a workload, and the volume claims that it makes for them."""
    claims = storage.templates(workload.body)
    for index, pod in enumerate(pods(workload.body), start=1):
        storage.give(pod, claims)
        for name, template in claims.items():
            yield Document(f"{workload.source}, pod {index}", storage.of_template(pod, name, template))
        yield Document(f"{workload.source}, pod {index}", pod)


def count(body: Body) -> int:
    """Give how many pods a workload makes."""
    workload = spec(body)
    if body.get("kind") != "Job":
        return _number(workload.get("replicas"))
    if workload.get("suspend") is True:
        return 0
    return min(_number(workload.get("parallelism")), _number(workload.get("completions"), 2**31))


def _number(value: Any, default: int = 1) -> int:
    return value if isinstance(value, int) and value >= 0 else default
