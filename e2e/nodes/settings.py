"""The files that configure a node: of containerd, of its network, and of the kubelet."""

import json
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.nodes import image
from e2e.nodes.programs import Programs, network_plugins

SOCKET: Final = "unix:///run/containerd/containerd.sock"
DRIVER: Final = "gpu.nodes.example.com"
"""The name of the driver on every node."""

SERVICE: Final = "10.0.0.1:443"
"""The Service `kubernetes`, as every API server makes it: the first address of its range."""

_ADDRESS: Final = """#!/bin/sh
# A CNI plugin that gives a pod an address, by the sandbox's ID, and nothing else: no packet is sent to a pod.
[ "$CNI_COMMAND" = ADD ] || exit 0
sum=$(printf %s "$CNI_CONTAINERID" | cksum | cut -d' ' -f1)
echo '{"cniVersion":"1.0.0","ips":[{"address":"'10.@.$((sum / 250 % 250)).$((sum % 250 + 1))/32'"}]}'
"""


@dataclass(frozen=True, slots=True)
class Network:
    """A network of pods: the plugin's configuration, folders of plugins, and a script that is one, named `address`."""

    plugin: Mapping[str, Any]
    folders: Sequence[Path] = ()
    script: str = ""


def unreached(index: int) -> Network:
    """Return a network in which pods have an address, and no packet reaches them."""
    return Network({"type": "address"}, script=_ADDRESS.replace("@", str(128 + index % 100)))


def reached(index: int) -> Network:
    """Return a network in which pods and their node reach each other; the node's addresses are all there is. Builds."""
    ranges = [[{"subnet": f"10.{128 + index % 100}.0.0/16"}]]
    addresses = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    return Network({"type": "ptp", "ipam": addresses}, [each.parent for each in network_plugins()])


def write_containerd(folder: Path, programs: Programs, network: Network, snapshots: str) -> Path:
    """Write containerd's files into a node's folder and return the path of its configuration."""
    binaries, networks = folder / "cni" / "bin", folder / "cni" / "net.d"
    binaries.mkdir(parents=True, exist_ok=True)
    networks.mkdir(exist_ok=True)
    plugin = binaries / "address"
    plugin.write_text(network.script)
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    conflist = {"cniVersion": "1.0.0", "name": "pods", "plugins": [network.plugin]}
    (networks / "10-pods.conflist").write_text(json.dumps(conflist))
    folders = json.dumps([str(each) for each in (binaries, *network.folders)])
    path = folder / "containerd.toml"
    # A process of a container may not get a lower oom_score_adj than ours. The plugin `opt` would make a folder on the
    # machine.
    path.write_text(
        f"""version = 3
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshots}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{image.NAME}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
cdi_spec_dirs = ["/var/run/cdi"]
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = {folders}
conf_dir = "{networks}"
use_internal_loopback = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{programs.shim}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{programs.runc}"
SystemdCgroup = false
"""
    )
    return path


def snapshotter(folder: Path, *, has_large_images: bool) -> str:
    """
    Return how containerd puts the layers of images together beneath a folder.

    `native` works on every file system, and copies the whole image for each layer and each container. For large images
    `overlayfs` is taken where the folder's file system can be the upper layer, which another overlay cannot. The end of
    each of its mounts waits until all that the machine has still to write is on its disk.
    """
    if not has_large_images:
        return "native"
    tried = folder / "overlay"
    for each in ("lower", "upper", "work", "merged"):
        (tried / each).mkdir(parents=True, exist_ok=True)
    options = ",".join(f"{each}dir={tried / each}" for each in ("lower", "upper", "work"))
    mount = ("mount", "-t", "overlay", "overlay", "-o", options, str(tried / "merged"))
    # In a namespace of its own, with which the mount goes.
    done = subprocess.run(("unshare", "--mount", *mount), capture_output=True, check=False)
    shutil.rmtree(tried)
    return "native" if done.returncode else "overlayfs"


def write_kubelet(folder: Path, cgroup: str, changes: dict[str, Any]) -> Path:
    """Write a KubeletConfiguration; `changes` replace its fields."""
    settings: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "clusterDNS": ["10.0.0.10"],  # nobody answers there; without it each pod gets a warning
        "containerRuntimeEndpoint": SOCKET,
        "failCgroupV1": False,
        "failSwapOn": False,
        # The machine's memory and disk are shared: what others use is no reason to evict a pod or an image.
        "evictionHard": dict.fromkeys(
            ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%"
        ),
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        **changes,
    }
    path = folder / "kubelet.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path
