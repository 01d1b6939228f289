"""The files that configure a node: of containerd, of its network, and of the kubelet."""

import stat
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.nodes import image
from e2e.nodes.programs import Programs

SOCKET: Final = "unix:///run/containerd/containerd.sock"
DRIVER: Final = "gpu.nodes.example.com"
"""The name of the driver on every node."""

_NETWORK: Final = """#!/bin/sh
# A CNI plugin that gives a pod an address, by the sandbox's ID, and nothing else: no packet is sent to a pod.
[ "$CNI_COMMAND" = ADD ] || exit 0
sum=$(printf %s "$CNI_CONTAINERID" | cksum | cut -d' ' -f1)
echo '{"cniVersion":"1.0.0","ips":[{"address":"'10.@.$((sum / 250 % 250)).$((sum % 250 + 1))/32'"}]}'
"""


def write_containerd(folder: Path, programs: Programs, index: int) -> Path:
    """Write containerd's files into a node's folder and return the path of its configuration."""
    binaries, networks = folder / "cni" / "bin", folder / "cni" / "net.d"
    binaries.mkdir(parents=True, exist_ok=True)
    networks.mkdir(exist_ok=True)
    plugin = binaries / "address"
    plugin.write_text(_NETWORK.replace("@", str(128 + index % 100)))
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    (networks / "10-address.conflist").write_text(
        '{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "address"}]}'
    )
    path = folder / "containerd.toml"
    # The native snapshotter works on every file system, and there is one small file to copy. A process of a container
    # may not get a lower oom_score_adj than ours. The plugin `opt` would make a folder on the machine.
    path.write_text(
        f"""version = 3
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[plugins."io.containerd.cri.v1.images"]
snapshotter = "native"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{image.NAME}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
cdi_spec_dirs = ["/var/run/cdi"]
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{binaries}"]
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
