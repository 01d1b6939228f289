"""What pods demand of the pods around them: host ports, affinity and anti-affinity to other pods, topology spread."""

from typing import Final

from e2e.differential.chance import Chance
from e2e.differential.machines import HOST, ZONE
from e2e.differential.shapes import NAMESPACES, TEAM, Json, requirement

WEIGHTS: Final = {
    "ports": 0.2,
    "pod affinity": 0.25,
    "pod anti-affinity": 0.25,
    "namespaces": 0.5,
    "label keys": 0.3,
    "spread": 0.3,
    "spread policies": 0.5,
}
APPS: Final = ("web", "db", "cache")
VERSIONS: Final = ("1", "2")


def labels(chance: Chance) -> dict[str, str]:
    """Make the labels of a pod, by which others know it."""
    found = {"app": chance.pick(APPS)}
    if chance.often(0.8):
        found["version"] = chance.pick(VERSIONS)
    return found


def surround(chance: Chance, spec: Json, *, waits: bool = True) -> None:
    """Write demands into the spec of a pod that waits, or of one that runs, which keeps others away by them."""
    if chance.some("ports", 0.5):
        ports = [_port(chance) for _ in range(chance.pick((1, 1, 2)))]
        unique = {(each["hostPort"], each["protocol"], each.get("hostIP")): each for each in ports}
        spec["containers"][0]["ports"] = list(unique.values())
    affinity = spec.get("affinity", {})
    for feature, field in (("pod affinity", "podAffinity"), ("pod anti-affinity", "podAntiAffinity")):
        if chance.some(feature, 0.4 if waits else 0.3):
            terms = [_term(chance) for _ in range(chance.pick((1, 1, 2)))]
            affinity[field] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if affinity:
        spec["affinity"] = affinity
    if waits and chance.some("spread", 0.6):
        spec["topologySpreadConstraints"] = _spread(chance)


def _port(chance: Chance) -> Json:
    port = chance.pick((80, 80, 443))
    found: Json = {"containerPort": port, "hostPort": port, "protocol": chance.pick(("TCP", "TCP", "UDP"))}
    if chance.half():
        found["hostIP"] = chance.pick(("127.0.0.1", "10.0.0.1", "0.0.0.0"))
    return found


def _term(chance: Chance) -> Json:
    term: Json = {"topologyKey": chance.pick((ZONE, HOST, "rack"))}
    if chance.often(0.95):
        term["labelSelector"] = _selector(chance)
    if chance.some("namespaces", 0.4):
        term["namespaces"] = chance.picks(NAMESPACES, 1, 2)
    if chance.some("namespaces", 0.4):
        term["namespaceSelector"] = chance.pick(_NAMESPACE_SELECTORS)
    if _takes_keys(term) and chance.some("label keys", 0.5):
        term[chance.pick(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    return term


def _selector(chance: Chance) -> Json:
    if chance.half():
        return {"matchLabels": {"app": chance.pick(APPS)}}
    return {"matchExpressions": [chance.pick(_EXPRESSIONS)]} if chance.often(0.9) else {}


def _takes_keys(term: Json) -> bool:
    """Say whether the API takes `version` among the keys beside the selector, which may not name it itself."""
    selector = term.get("labelSelector")
    return selector is not None and all(each["key"] != "version" for each in selector.get("matchExpressions", ()))


def _spread(chance: Chance) -> list[Json]:
    """Make constraints; the API takes each pair of key and effect once."""
    found: dict[tuple[str, str], Json] = {}
    for _ in range(chance.pick((1, 1, 2))):
        constraint: Json = {
            "maxSkew": chance.pick((1, 1, 2)),
            "topologyKey": chance.pick((ZONE, HOST, "rack")),
            "whenUnsatisfiable": "DoNotSchedule" if chance.often(0.9) else "ScheduleAnyway",
        }
        if chance.often(0.9):
            constraint["labelSelector"] = _selector(chance) if chance.half() else {}
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and chance.often(0.5):
            constraint["minDomains"] = chance.pick((1, 2, 4, 9))
        if chance.some("spread policies", 0.5):
            constraint["nodeAffinityPolicy"] = chance.pick(("Honor", "Ignore"))
        if chance.some("spread policies", 0.5):
            constraint["nodeTaintsPolicy"] = chance.pick(("Honor", "Ignore"))
        if _takes_keys(constraint) and chance.some("label keys", 0.5):
            constraint["matchLabelKeys"] = ["version"]
        found[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
    return list(found.values())


_EXPRESSIONS: Final[tuple[Json, ...]] = (
    requirement("app", "In", "web", "db"),
    requirement("app", "NotIn", "web"),
    requirement("version", "Exists"),
    requirement("version", "DoesNotExist"),
)
_NAMESPACE_SELECTORS: Final[tuple[Json, ...]] = (
    {},
    {"matchLabels": {TEAM: "blue"}},
    {"matchLabels": {"kind": "bright"}},
    {"matchExpressions": [requirement(TEAM, "In", "red", "green")]},
    {"matchExpressions": [requirement(TEAM, "NotIn", "red")]},
    {"matchExpressions": [requirement("absent", "Exists")]},
)
