"""
The configuration of the schedulers that run in the cluster: that of the ConfigMap which their pods mount.

Only pods of one namespace count, so that no tenant can pass a configuration to the commands of others.
"""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import msgspec

from scheduler import REPLICAS
from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client
from scheduler.kube.errors import Forbidden, NotFound
from scheduler.settings import Settings, SettingsError, default, digest, parse
from scheduler.settings.scheduler_names import served_instead
from scheduler.status.leader_lease import SeenLease, look_at_default_lease

_OPTION: Final = "--config"


class NamedSettings(NamedTuple):
    """A configuration, and what messages call it."""

    name: str
    settings: Settings


class RunningConfigurations(NamedTuple):
    """
    The configurations that were read, and why others were not.

    `lease` is read where no pod of a scheduler runs, as a process outside of the cluster may lead; None where there is
    none or it cannot be read.
    """

    found: tuple[NamedSettings, ...] = ()
    problems: tuple[str, ...] = ()
    lease: SeenLease | None = None

    def chosen(self, scheduler_name: str) -> tuple[Settings, tuple[str, ...]]:
        """
        Return the configuration with a profile for a scheduler, or for the one that is meant by an unserved name.

        Where it is not known these are the defaults, and why. Without a running scheduler they are the defaults.
        """
        name = served_instead(scheduler_name, self.scheduler_names) if self.scheduler_names else scheduler_name
        having = tuple(each for each in self.found if name in each.settings.scheduler_names)
        among, problems = (having, ()) if having else (self.found, self.problems)
        if any(each.settings != among[0].settings for each in among):
            problems = (*problems, f"several schedulers run, by {' and '.join(each.name for each in among)}")
        return among[0].settings if among and not problems else default(), problems

    @property
    def scheduler_names(self) -> frozenset[str] | None:
        """The names that running schedulers serve, without one those of the defaults; None: not all are known."""
        if self.problems or self.unknown_leader:
            return None
        return frozenset().union(*(each.settings.scheduler_names for each in self.found)) or default().scheduler_names

    @property
    def unknown_leader(self) -> str:
        """The process that leads outside of the cluster with a configuration other than the defaults; "" without."""
        if self.found or self.problems or self.lease is None:
            return ""
        report = self.lease.current_report
        return "" if report is not None and report.configuration == digest(default()) else self.lease.leader


class _KeyToPath(msgspec.Struct):
    key: str
    path: str


class _MountedConfigMap(msgspec.Struct):
    name: str
    items: list[_KeyToPath] = []


class _Volume(msgspec.Struct, rename="camel"):
    name: str
    config_map: _MountedConfigMap | None = None


class _Mount(msgspec.Struct, rename="camel"):
    name: str
    mount_path: str
    sub_path: str = ""


class _Container(msgspec.Struct, rename="camel"):
    command: list[str] = []
    args: list[str] = []
    volume_mounts: list[_Mount] = []


class _Spec(msgspec.Struct):
    containers: list[_Container]
    volumes: list[_Volume] = []


class _Owner(msgspec.Struct):
    name: str


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    creation_timestamp: str
    labels: dict[str, str] = {}
    owner_references: list[_Owner] = []


class SchedulerPod(msgspec.Struct):
    """What is read of a pod of a scheduler."""

    metadata: _Metadata
    spec: _Spec


class _PodList(msgspec.Struct):
    items: list[SchedulerPod]


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class ConfigFile(NamedTuple):
    """The path of `--config`, "" without one; the ConfigMap and the key that hold the file, "" where none does."""

    path: str
    config_map: str = ""
    key: str = ""


def read(access: ClusterAccess, namespace: str) -> RunningConfigurations:
    """
    Read the configurations of the schedulers that run in a namespace.

    Raise `KubeError`, but not for a ConfigMap that the caller may not read or that cannot be used.
    """
    return wait_for(_read(access, namespace))


async def _read(access: ClusterAccess, namespace: str) -> RunningConfigurations:
    query = {"labelSelector": REPLICAS, "fieldSelector": "status.phase=Running", "resourceVersion": "0"}
    async with access.connect() as client:
        try:
            body = await client.request("GET", f"{paths.CORE}/namespaces/{namespace}/pods", query=query)
        except Forbidden:
            problem = f"the running scheduler is not known: you may not list pods of namespace {namespace}"
            return RunningConfigurations(problems=(problem,))
        files = config_files(msgspec.json.decode(body, type=_PodList).items)
        if not files:
            return RunningConfigurations(lease=await look_at_default_lease(client, namespace))
        read = await asyncio.gather(*(_configuration(client, namespace, each) for each in files))
        found = tuple(each for each in read if isinstance(each, NamedSettings))
    return RunningConfigurations(found, tuple(each for each in read if isinstance(each, str)))


def config_files(pods: Iterable[SchedulerPod]) -> tuple[ConfigFile, ...]:
    """Return the file of the newest pod of each Deployment: while a new configuration is rolled out, the new one."""
    by_age = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)
    return tuple(dict.fromkeys({_deployment(pod.metadata): _file(pod) for pod in by_age}.values()))


def _deployment(metadata: _Metadata) -> str:
    """Return the name of the pod's ReplicaSet without the hash of its template; of a pod alone its own name."""
    owner = metadata.owner_references[0].name if metadata.owner_references else metadata.name
    return owner.removesuffix(f"-{metadata.labels.get('pod-template-hash', '')}")


def _file(pod: SchedulerPod) -> ConfigFile:
    container = pod.spec.containers[0]
    path = next(_values([*container.command, *container.args]), "")
    maps = {each.name: each.config_map for each in pod.spec.volumes}
    for mount in container.volume_mounts:
        config_map = maps.get(mount.name)
        if config_map is not None and PurePosixPath(path).is_relative_to(mount.mount_path):
            below = str(mount.sub_path / PurePosixPath(path).relative_to(mount.mount_path))
            return ConfigFile(path, config_map.name, next((e.key for e in config_map.items if e.path == below), below))
    return ConfigFile(path)


def _values(words: list[str]) -> Iterator[str]:
    """Yield the values of the option."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == _OPTION:
            yield following
        elif word.startswith(f"{_OPTION}="):
            yield word.removeprefix(f"{_OPTION}=")


async def _configuration(client: Client, namespace: str, file: ConfigFile) -> NamedSettings | str:
    """Read one configuration; return why where it cannot be read."""
    if not file.path:
        return NamedSettings("the defaults", default())
    if not file.config_map:
        return f"{file.path} of the running scheduler is in no ConfigMap"
    name = f"ConfigMap {namespace}/{file.config_map}"
    try:
        path = paths.in_namespace(f"{paths.CORE}/configmaps", namespace, file.config_map)
        text = msgspec.json.decode(await client.request("GET", path), type=_ConfigMap).data.get(file.key)
        if text is None:
            return f"{name}: data: there is no key {file.key}, which the running scheduler reads"
        return NamedSettings(name, parse(text, f"{name}, data, {file.key}"))
    except Forbidden:
        return f"{name}: you may not read it; the ClusterRole dovetail-viewer allows it"
    except NotFound:
        return f"{name}: it does not exist"
    except SettingsError as error:
        return str(error)
