"""Controllers' workloads for the pods of a world: what people run, with every kind of demand on places mixed."""

from typing import Any

from tests.support.shell_world import World

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def workload(world: World, kind: str, name: str, pod: Json, **spec: Any) -> Json:
    """Make a Deployment, StatefulSet or DaemonSet of pods labelled `app: <name>`."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(world, pod)},
            **spec,
        },
    }


def job(world: World, name: str, pod: Json, count: int, *, run_seconds: str) -> Json:
    """Make a Job of so many pods at once, which succeed after a while."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {
            "parallelism": count,
            "completions": count,
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"dovetail.dev/run-seconds": run_seconds}},
                "spec": {**pod_spec(world, pod), "restartPolicy": "Never"},
            },
        },
    }


def pod_spec(world: World, more: Json) -> Json:
    """Fill in what all pods have: the scheduler, and the nodes of this world."""
    return {
        "schedulerName": world.scheduler,
        "nodeSelector": {"world": world.word},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "example.com/none", **more.pop("container", {})}],
        **more,
    }


def with_devices(template: str) -> Json:
    """Make the part of a pod that has a claim from a template."""
    return {
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
        "container": {"resources": {"claims": [{"name": "devices"}], "requests": {"cpu": "500m"}}},
    }


def apart(name: str, key: str) -> Json:
    """Make the affinity that keeps pods of a workload apart."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(name, key)]}}


def near(name: str, key: str) -> Json:
    """Make the affinity that keeps pods with those of a workload."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(name, key)]}}


def spread(name: str, key: str) -> list[Json]:
    """Make the constraint that spreads a workload evenly."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name}},
        }
    ]


def storage_class(world: World) -> Json:
    """Make the class of volumes that are there already, and are bound when a pod comes."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": world.word},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(world: World, node: str) -> Json:
    """Make a local volume of a node."""
    expression = {"key": HOST, "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{node}-disk"},
        "spec": {
            "storageClassName": world.word,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


def volume_claim_template(world: World) -> Json:
    """Make the template of a StatefulSet's claims."""
    spec = {
        "storageClassName": world.word,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
    }
    return {"metadata": {"name": "disk"}, "spec": spec}


def _term(name: str, key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}}
