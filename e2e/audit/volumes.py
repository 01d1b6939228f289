"""Pods have their volumes where they run, and volumes have no more pods, and nodes no more volumes, than they take."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.audit.inventory import selects
from e2e.audit.reading import Finding, Json, Key, key_of


@dataclass(frozen=True, slots=True)
class Storage:
    """PersistentVolumeClaims by key, PersistentVolumes and CSINodes by name."""

    claims: dict[Key, Json]
    volumes: dict[str, Json]
    limits: dict[str, Json]

    def findings(self, pods: list[Json], nodes: dict[str, Json]) -> Iterator[Finding]:
        """Check the pods that hold a node."""
        users: defaultdict[Key, list[str]] = defaultdict(list)
        attached: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for pod in pods:
            for key in _claims_of(pod):
                users[key].append(str(key_of(pod)))
                volume = self._volume(key)
                if volume is None:
                    yield Finding("volume", str(key_of(pod)), f"it is bound and its volume claim {key.name} is not")
                    continue
                yield from _place_findings(pod, volume, nodes)
                if "csi" in volume["spec"]:
                    csi = volume["spec"]["csi"]
                    attached[pod["spec"]["nodeName"], csi["driver"]].add(csi["volumeHandle"])
        for key, found in users.items():
            modes = self.claims[key]["spec"].get("accessModes") or () if key in self.claims else ()
            if "ReadWriteOncePod" in modes and len(found) > 1:
                yield Finding("volume", str(key), f"only one pod may use it, and {', '.join(found)} do")
        yield from self._claimed_twice()
        yield from self._limit_findings(attached)

    def _volume(self, key: Key) -> Json | None:
        claim = self.claims.get(key)
        if claim is None or claim.get("status", {}).get("phase") != "Bound":
            return None
        return self.volumes.get(claim["spec"].get("volumeName", ""))

    def _claimed_twice(self) -> Iterator[Finding]:
        owners: defaultdict[str, list[str]] = defaultdict(list)
        for key, claim in self.claims.items():
            if name := claim["spec"].get("volumeName"):
                owners[name].append(str(key))
        for name, keys in owners.items():
            if len(keys) > 1:
                yield Finding("volume", name, f"it is claimed by {', '.join(keys)}")

    def _limit_findings(self, attached: dict[tuple[str, str], set[str]]) -> Iterator[Finding]:
        for (node, driver), handles in attached.items():
            for entry in (self.limits.get(node, {}).get("spec") or {}).get("drivers") or ():
                most = (entry.get("allocatable") or {}).get("count")
                if entry["name"] == driver and most is not None and len(handles) > most:
                    yield Finding("attached", node, f"{len(handles)} volumes of {driver}, it takes {most}")


def _place_findings(pod: Json, volume: Json, nodes: dict[str, Json]) -> Iterator[Finding]:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    node = nodes.get(pod["spec"]["nodeName"])
    if required is not None and node is not None and not selects(required, node):
        message = f"volume {volume['metadata']['name']} cannot be used on {pod['spec']['nodeName']}"
        yield Finding("volume", str(key_of(pod)), message)


def _claims_of(pod: Json) -> Iterator[Key]:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield Key(namespace, claim["claimName"])
        elif "ephemeral" in volume:
            yield Key(namespace, f"{name}-{volume['name']}")
