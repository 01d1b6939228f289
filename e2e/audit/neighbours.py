"""Pods of a node and of a domain get on with each other: host ports, pod affinity, anti-affinity, topology spread."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from e2e.audit.inventory import selects
from e2e.audit.places import KEEPS_OUT, REQUIRED, is_tolerated
from e2e.audit.reading import Finding, Json, key_of
from e2e.audit.selectors import labels_of, selects_labels

EVERY_ADDRESS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Pods that hold a node, the nodes, and the labels of the namespaces; `scheduled` are judged, `pods` count."""

    pods: list[Json]
    scheduled: list[Json]
    nodes: dict[str, Json]
    namespaces: dict[str, dict[str, str]]

    def findings(self) -> Iterator[Finding]:
        """Check all of them."""
        yield from self._port_findings()
        for pod in self.scheduled:
            affinity = pod["spec"].get("affinity") or {}
            for term in (affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ():
                yield from self._apart(pod, term)
            for term in (affinity.get("podAffinity") or {}).get(REQUIRED) or ():
                yield from self._together(pod, term)
            for constraint in pod["spec"].get("topologySpreadConstraints") or ():
                if constraint["whenUnsatisfiable"] == "DoNotSchedule":
                    yield from self._spread(pod, constraint)

    def _port_findings(self) -> Iterator[Finding]:
        by_node: defaultdict[str, list[tuple[Json, Json]]] = defaultdict(list)
        for pod in self.pods:
            by_node[pod["spec"]["nodeName"]] += [(pod, port) for port in _ports(pod)]
        for name, taken in by_node.items():
            for (one, port), (other, again) in combinations(taken, 2):
                if one is not other and _clash(port, again):
                    yield Finding("port", name, f"{key_of(one)} and {key_of(other)} both take port {port['hostPort']}")

    def _apart(self, pod: Json, term: Json) -> Iterator[Finding]:
        domain = self._domain(pod, term["topologyKey"])
        others = (each for each in self.pods if each is not pod and self._counts(pod, term, each))
        for other in others:
            if domain is not None and self._domain(other, term["topologyKey"]) == domain:
                yield Finding("apart", str(key_of(pod)), f"{key_of(other)} is in the same {term['topologyKey']}")

    def _together(self, pod: Json, term: Json) -> Iterator[Finding]:
        """A pod that its own term selects may be the first of its kind, and is its own company."""
        domain = self._domain(pod, term["topologyKey"])
        company = (each for each in self.pods if self._domain(each, term["topologyKey"]) == domain)
        if domain is None or not any(self._counts(pod, term, each) for each in company):
            yield Finding("together", str(key_of(pod)), f"no pod that it wants is in its {term['topologyKey']}")

    def _counts(self, pod: Json, term: Json, other: Json) -> bool:
        named = term.get("namespaces") or ()
        selector = term.get("namespaceSelector")
        namespace, own = other["metadata"]["namespace"], pod["metadata"]["namespace"]
        is_seen = (
            namespace in named
            or (not named and selector is None and namespace == own)
            or selects_labels(selector, self.namespaces.get(namespace, {}))
        )
        # The API server has merged matchLabelKeys and mismatchLabelKeys into the selector.
        return is_seen and selects_labels(term.get("labelSelector"), labels_of(other))

    def _spread(self, pod: Json, constraint: Json) -> Iterator[Finding]:
        """Pods were placed one after the other while others of the same constraint grew: the end keeps it, too."""
        key = constraint["topologyKey"]
        counted = [
            each
            for each in self.pods
            if each["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and selects_labels(constraint.get("labelSelector"), labels_of(each))
        ]
        if any(constraint not in (each["spec"].get("topologySpreadConstraints") or ()) for each in counted):
            return  # others count that keep no such rule: how it was when this one came cannot be told
        domains = {labels_of(node)[key] for node in self.nodes.values() if _is_open(pod, node, constraint)}
        counts = Counter(self._domain(each, key) for each in counted)
        domain = self._domain(pod, key)
        least = min((counts[each] for each in domains), default=0)
        if len(domains) < (constraint.get("minDomains") or 1):
            least = 0
        if domain is None or counts[domain] - least > constraint["maxSkew"]:
            message = f"{key} {domain} has {counts[domain]} of its pods, another has {least}"
            yield Finding("spread", str(key_of(pod)), message)

    def _domain(self, pod: Json, key: str) -> str | None:
        node = self.nodes.get(pod["spec"]["nodeName"])
        return labels_of(node).get(key) if node is not None else None


def _ports(pod: Json) -> Iterator[Json]:
    sidecars = [each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*pod["spec"]["containers"], *sidecars):
        yield from (port for port in container.get("ports") or () if port.get("hostPort"))


def _clash(one: Json, other: Json) -> bool:
    if one["hostPort"] != other["hostPort"] or one.get("protocol", "TCP") != other.get("protocol", "TCP"):
        return False
    addresses = one.get("hostIP", ""), other.get("hostIP", "")
    return addresses[0] == addresses[1] or any(each in EVERY_ADDRESS for each in addresses)


def _is_open(pod: Json, node: Json, constraint: Json) -> bool:
    """Say whether a node's domain counts for a pod's constraint."""
    if constraint["topologyKey"] not in labels_of(node):
        return False
    wanted = pod["spec"].get("nodeSelector") or {}
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and (
        any(labels_of(node).get(name) != value for name, value in wanted.items())
        or (required is not None and not selects(required, node))
    ):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") == "Ignore" or _tolerates_all(pod, _taints(node))


def _tolerates_all(pod: Json, taints: Iterable[Json]) -> bool:
    return all(each["effect"] not in KEEPS_OUT or is_tolerated(pod, each) for each in taints)


def _taints(node: Json) -> list[Json]:
    found: list[Json] = (node.get("spec") or {}).get("taints") or []
    return found
