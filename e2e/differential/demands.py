"""What a pod demands of a node's own properties and room."""

from e2e.differential.chance import Chance
from e2e.differential.machines import EXTENDED, HOST, HUGE, ZONE, container
from e2e.differential.shapes import Json, requirement
from e2e.objects import Manifest

OVERHEAD = {"cpu": "250m", "memory": "120Mi"}
RUNTIME = "heavy"


def runtime_class() -> Manifest:
    """Make the RuntimeClass whose pods have an overhead."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME},
        "handler": "heavy",
        "overhead": {"podFixed": OVERHEAD},
    }


def demand(chance: Chance, spec: Json, places: list[str]) -> None:
    """Write demands into a pod's spec."""
    _containers(chance, spec)
    if chance.some("selector", 0.35):
        spec["nodeSelector"] = _selector(chance)
    if chance.some("affinity", 0.5):
        required = {"nodeSelectorTerms": [_term(chance, places) for _ in range(chance.pick((1, 1, 2, 3)))]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if chance.some("taints", 0.6) or chance.some("unschedulable", 0.4):
        spec["tolerations"] = chance.picks(_TOLERATIONS, 1, 3)
    if chance.some("gates", 0.1):
        spec["schedulingGates"] = [{"name": "example.com/later"}]
    if chance.some("overhead", 0.5):
        spec["runtimeClassName"] = RUNTIME


def _containers(chance: Chance, spec: Json) -> None:
    count = chance.pick((1, 1, 2))
    spec["containers"] = [container(f"c{index}", _requests(chance)) for index in range(count)]
    if chance.has("init"):
        inits = [container(f"i{index}", _requests(chance)) for index in range(chance.number(0, 3))]
        for each in inits:
            if chance.half():
                each["restartPolicy"] = "Always"
        if inits:
            spec["initContainers"] = inits
    if chance.some("declared features", 0.5):
        exits = {"operator": "In", "values": [42]}
        rule = {"action": "RestartAllContainers", "exitCodes": exits}
        spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    if chance.some("pod-level", 0.4):
        # No container may ask for more than the pod as a whole does.
        for each in (*spec["containers"], *spec.get("initContainers", ())):
            each["resources"] = {}
        spec["resources"] = {"requests": {"cpu": chance.pick(("500m", "1500m", "3")), "memory": "300Mi"}}


def _requests(chance: Chance) -> dict[str, str]:
    requests: dict[str, str] = {}
    if chance.some("resources", 0.7):
        requests["cpu"] = chance.pick(("0", "100m", "500m", "1", "1500m", "3"))
    if chance.some("resources", 0.5):
        requests["memory"] = chance.pick(("0", "100Mi", "1Gi", "1500M", "3Gi"))
    if chance.some("resources", 0.2):
        requests["ephemeral-storage"] = chance.pick(("0", "1Gi", "15Gi"))
    if chance.some("extended", 0.3):
        requests[EXTENDED] = chance.pick(("0", "1", "2"))
    if chance.some("hugepages", 0.3):
        requests |= {HUGE: chance.pick(("32Mi", "64Mi", "96Mi")), "memory": "64Mi"}
    return requests


def _selector(chance: Chance) -> dict[str, str]:
    choices = ((ZONE, "a"), (ZONE, "b"), ("disk", "ssd"), ("disk", ""), ("generation", "2"), ("rack", "r1"))
    return dict(chance.picks(choices, 1, 2))


def _term(chance: Chance, places: list[str]) -> Json:
    term: Json = {}
    if chance.often(0.8):
        term["matchExpressions"] = [_expression(chance) for _ in range(chance.pick((1, 1, 2)))]
    if chance.some("fields", 0.4):
        names = chance.picks(places, 1, 1)
        term["matchFields"] = [requirement("metadata.name", chance.pick(("In", "In", "NotIn")), *names)]
    return term


def _expression(chance: Chance) -> Json:
    match chance.pick(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")):
        case "In" | "NotIn" as operator:
            key, values = chance.pick(((ZONE, ("a", "b", "x")), ("disk", ("ssd", "hdd", "")), ("rack", ("r1", "r2"))))
            return requirement(key, operator, *chance.picks(values, 1, 2))
        case "Gt" | "Lt" as operator:
            return requirement("generation", operator, chance.pick(("0", "1", "2", "5", "007")))
        case operator:
            return requirement(chance.pick((ZONE, "disk", "generation", "rack", HOST, "absent")), operator)


_TOLERATIONS: tuple[Json, ...] = (
    {"operator": "Exists"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web"},
    {"key": "ending", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    {"key": "ending", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "old", "operator": "Exists"},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"},
    {"key": "level", "operator": "Equal", "value": "3"},
)
