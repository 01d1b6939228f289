"""
The pods of a LeaderWorkerSet: groups of a leader and its workers, with subgroups and volume claims.

Facts are those of the API types and of the controllers and webhooks of kubernetes-sigs/lws.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text
from scheduler.simulation.workloads.exclusive_topology import GROUP_KEY, OF_GROUP, add_terms
from scheduler.simulation.workloads.foreign_pods import ForeignPods, with_template
from scheduler.simulation.workloads.pod_templates import namespace_of, number, pod_of, reference, template_hash
from scheduler.simulation.workloads.volume_controllers import add_template_volumes, claim_of_template

_LWS: Final = "leaderworkerset.sigs.k8s.io"
_SUBGROUP_KEY: Final = f"{_LWS}/subgroup-key"
_OF_SUBGROUP: Final = f"{_LWS}/subgroup-exclusive-topology"


def leader_worker_set(body: Body) -> ForeignPods:
    """Return what a LeaderWorkerSet makes."""
    terms = mapping(spec(body).get("leaderWorkerTemplate"))
    replicas, size = number(spec(body).get("replicas")), max(1, number(terms.get("size")))
    return ForeignPods(replicas * size, lambda: _groups(body, terms, replicas, size))


def _groups(body: Body, terms: Body, replicas: int, size: int) -> Iterator[Body]:
    """Return the pods of each group: the leader `<name>-<group>` and the workers `<name>-<group>-<index>`."""
    name = text(metadata(body).get("name"))
    claims = {text(metadata(each).get("name")): each for _, each in entries(terms.get("volumeClaimTemplates"))}
    made = {each: with_template(body, mapping(terms.get(each))) for each in ("leaderTemplate", "workerTemplate")}
    hashes = {each: template_hash(template) for each, template in made.items()}
    revision = template_hash({"spec": {"template": terms}})
    has_leader = bool(mapping(terms.get("leaderTemplate")))
    is_unique = mapping(spec(body).get("networkConfig")).get("subdomainPolicy") == "UniquePerReplica"
    for group in range(replicas):
        leader = f"{name}-{group}"
        for index in range(size):
            is_leader = index == 0
            title, maker = (leader, name) if is_leader else (f"{leader}-{index}", leader)
            role = "leaderTemplate" if is_leader and has_leader else "workerTemplate"
            labels = _labels(body, terms, leader, index, size) | {
                "statefulset.kubernetes.io/pod-name": title,
                "controller-revision-hash": f"{maker}-{hashes[role]}",
                f"{_LWS}/template-revision-hash": revision,
            }
            owner = reference({"apiVersion": "apps/v1"}, "StatefulSet", maker, f"{metadata(body).get('uid')}-{maker}")
            pod = pod_of(made[role], title, owner, labels)
            mapping(metadata(pod)["annotations"]).update(_annotations(body, terms, leader, index, size))
            spec(pod).update(hostname=title, subdomain=leader if is_unique else name)
            _exclusive(pod)
            add_template_volumes(pod, claims)
            yield from (claim_of_template(pod, *each) for each in claims.items())
            yield pod


def _labels(body: Body, terms: Body, leader: str, index: int, size: int) -> dict[str, str]:
    group = leader.rpartition("-")[2]
    found = {
        f"{_LWS}/name": text(metadata(body).get("name")),
        f"{_LWS}/group-index": group,
        f"{_LWS}/worker-index": str(index),
        GROUP_KEY: _key(namespace_of(body), leader),
        "apps.kubernetes.io/pod-index": str(index or group),
    }
    policy = mapping(terms.get("subGroupPolicy"))
    width = number(policy.get("subGroupSize"), 0)
    if width and not (index == 0 and policy.get("subGroupPolicyType") == "LeaderExcluded"):
        # Where the leader is one more pod, it is in the first subgroup.
        part = max(0, index - 1) // width if (size - 1) % width == 0 else index // width
        found[f"{_LWS}/subgroup-index"] = str(part)
        found[_SUBGROUP_KEY] = _key(leader, str(part))
    return found


def _key(first: str, second: str) -> str:
    return hashlib.sha1(f"{first}/{second}".encode(), usedforsecurity=False).hexdigest()


def _annotations(body: Body, terms: Body, leader: str, index: int, size: int) -> dict[str, str]:
    asked, policy = mapping(metadata(body).get("annotations")), mapping(terms.get("subGroupPolicy"))
    found = {f"{_LWS}/size": str(size)}
    if index:
        found[f"{_LWS}/leader-name"] = leader
    if width := number(policy.get("subGroupSize"), 0):
        found[f"{_LWS}/subgroup-size"] = str(width)
    names = (OF_GROUP, _OF_SUBGROUP) if width else (OF_GROUP,)
    return found | {name: text(asked[name]) for name in names if text(asked.get(name))}


def _exclusive(pod: Body) -> None:
    """Keep a group, or a subgroup, in one domain of the topology, which it has alone."""
    wanted, labels = mapping(metadata(pod).get("annotations")), mapping(metadata(pod).get("labels"))
    for annotation, label in ((OF_GROUP, GROUP_KEY), (_OF_SUBGROUP, _SUBGROUP_KEY)):
        if annotation in wanted and label in labels:
            add_terms(spec(pod), text(wanted[annotation]), label, labels[label])
