"""LimitRanges, ResourceQuotas and RuntimeClasses that the API server refuses; `make reading` holds the rules to it."""

from typing import Any

import pytest

from scheduler.simulation.manifests.api_validation import of_object

Json = dict[str, Any]


def limits(*items: Json) -> Json:
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": list(items)}}


def container(**amounts: Json) -> Json:
    return limits({"type": "Container", **amounts})


def quota(scopes: list[str] | None = None, requirement: Json | None = None, **hard: str) -> Json:
    spec: Json = {"hard": {name.replace("__", "/").replace("_", "."): amount for name, amount in hard.items()}}
    spec |= {"scopes": scopes} if scopes else {}
    spec |= {"scopeSelector": {"matchExpressions": [requirement]}} if requirement else {}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}


def runtime_class(handler: str = "kata", **fields: Any) -> Json:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "r"},
        "handler": handler,
        **fields,
    }


GPU = "example.com/gpu"
HIGH = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
TOLERATION = {"key": "a", "operator": "Exists"}

WRONG = [
    (limits({"type": "Pod"}, {"type": "Pod"}), "spec.limits[1].type", "stands twice"),
    (limits({"type": "Node"}), "spec.limits[0].type", "write Pod, Container, PersistentVolumeClaim"),
    (limits({"type": "Pod", "default": {"cpu": "1"}}), "spec.limits[0].default", "goes with type Container only"),
    (limits({"type": "PersistentVolumeClaim"}), "spec.limits[0]", "says nothing of storage"),
    (limits({"type": "Pod", "max": {"gpus": "1"}}), "spec.limits[0].max[gpus]", "a name with a domain"),
    (container(min={"cpu": "2"}, max={"cpu": "1"}), "spec.limits[0].min[cpu]", "is 2, above max, which is 1"),
    (container(max={"cpu": "1"}, defaultRequest={"cpu": "2"}), "spec.limits[0].defaultRequest[cpu]", "above max"),
    (container(default={"cpu": "1"}, min={"cpu": "2"}), "spec.limits[0].min[cpu]", "above default, which is 1"),
    (container(maxLimitRequestRatio={"cpu": "500m"}), "spec.limits[0].maxLimitRequestRatio[cpu]", "write 1 or more"),
    (
        container(min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"}),
        "spec.limits[0].maxLimitRequestRatio[cpu]",
        "above max divided by min",
    ),
    (
        container(default={GPU: "2"}, defaultRequest={GPU: "1"}),
        f"spec.limits[0].defaultRequest[{GPU}]",
        "must be equal",
    ),
    (quota(podz="1"), "spec.hard[podz]", "is no resource of Kubernetes"),
    (quota(pods="-1"), "spec.hard[pods]", "write 0 or more"),
    (quota(pods="500m"), "spec.hard[pods]", "write a whole number"),
    (quota(["Ending"], pods="1"), "spec.scopes", "'Ending': write Terminating, NotTerminating"),
    (quota(["BestEffort"], requests_cpu="1"), "spec.scopes", "BestEffort does not go with hard[requests.cpu]"),
    (quota(["BestEffort", "NotBestEffort"], pods="1"), "spec.scopes", "exclude each other"),
    (
        quota(requirement=HIGH | {"values": []}, pods="1"),
        "spec.scopeSelector.matchExpressions[0].values",
        "compares with at least one",
    ),
    (
        quota(requirement=HIGH | {"operator": "Exists"}, pods="1"),
        "spec.scopeSelector.matchExpressions[0].values",
        "takes none",
    ),
    (
        quota(requirement=HIGH | {"scopeName": "BestEffort"}, pods="1"),
        "spec.scopeSelector.matchExpressions[0].operator",
        "BestEffort takes Exists only",
    ),
    (runtime_class(""), "handler", "missing"),
    (runtime_class("Kata"), "handler", "a-z, 0-9 and -"),
    (runtime_class(overhead={"podFixed": {"gpus": "1"}}), "overhead.podFixed[gpus]", "a name with a domain"),
    (runtime_class(scheduling={"tolerations": [TOLERATION] * 2}), "scheduling.tolerations", "stands twice"),
    (
        runtime_class(scheduling={"tolerations": [{"operator": "Equal"}]}),
        "scheduling.tolerations[0].key",
        "without a key the operator must be Exists",
    ),
    (
        runtime_class(scheduling={"tolerations": [{"key": "a", "operator": "Lt", "value": "1"}]}),
        "scheduling.tolerations[0].operator",
        "only Exists and Equal",
    ),
    (runtime_class(scheduling={"nodeSelector": {"a b": "c"}}), "scheduling.nodeSelector", "'a b': write"),
]

RIGHT = [
    limits({"type": "example.com/Special", "max": {"example.com/x": "1"}}),
    container(max={"cpu": "2"}, min={"cpu": "1"}, maxLimitRequestRatio={"cpu": "2"}),
    container(max={GPU: "2"}),
    limits({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
    quota(requirement=HIGH, pods="1", count__resourceclaims_resource_k8s_io="2", requests_example_com__gpu="3"),
    quota(["Terminating", "BestEffort"], pods="1"),
    quota(["VolumeAttributesClass"], persistentvolumeclaims="1", requests_storage="1Gi"),
    runtime_class(overhead={"podFixed": {"cpu": "1"}}, scheduling={"tolerations": [TOLERATION]}),
]


@pytest.mark.parametrize(("body", "field", "message"), WRONG, ids=[f"{row[1]} {row[2]}" for row in WRONG])
def test_what_the_server_refuses_is_named_by_its_field(body: Json, field: str, message: str) -> None:
    found = {error.field: error.message for error in of_object(body)}
    assert message in found[field]


@pytest.mark.parametrize("body", RIGHT, ids=[str(number) for number in range(len(RIGHT))])
def test_what_the_server_takes_is_taken(body: Json) -> None:
    assert list(of_object(body)) == []
