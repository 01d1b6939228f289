"""The programs of a node, built once from their Go modules: `python -m e2e.nodes.programs [VERSION]`."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from e2e.controlplane import build, versions

_HERE: Final = Path(__file__).parent
_CONTAINERD: Final = "github.com/containerd/containerd/v2/cmd/"
_PLUGINS: Final = "github.com/containernetworking/plugins/plugins/"
_CONTAINERD_TAGS: Final = "no_btrfs,no_devmapper,no_zfs"
"""Without snapshotters for file systems that no test has."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of everything that runs on a node."""

    kubelet: Path
    containerd: Path
    shim: Path
    ctr: Path
    runc: Path
    node: Path
    """Makes the node's namespaces and runs programs inside: see `go/node`."""
    driver: Path
    container: Path
    """The one program of the one image, statically linked."""
    pod_resources: Path
    """Asks a kubelet for the devices of its containers."""

    @classmethod
    def built(cls, kubernetes: str | None = None) -> Self:
        """
        Return them for a minor version of Kubernetes; builds first what the cache does not have (minutes).

        Raises BuildError or UnknownVersionError.
        """
        return cls(
            kubelet=kubelet(versions.chosen(kubernetes)),
            containerd=_containerd("containerd"),
            shim=_containerd("containerd-shim-runc-v2"),
            ctr=_containerd("ctr"),
            runc=_runc(),
            node=build.tool("node", _HERE / "go", "./node"),
            driver=build.tool("driver", _HERE / "go", "./driver"),
            container=build.tool("container", _HERE / "go", "./container"),
            pod_resources=build.tool("podresources", _HERE / "go", "./podresources"),
        )


def kubelet(kubernetes: str) -> Path:
    """Return the kubelet of a minor version. Raises BuildError."""
    if not (_HERE / "kubelet" / f"{kubernetes}.mod").exists():
        raise build.BuildError(f"no kubelet {kubernetes} can be built: e2e/nodes/kubelet has no {kubernetes}.mod")
    return build.of_kubernetes("kubelet", _HERE / "kubelet", kubernetes, "the kubelet")


def network_plugins() -> tuple[Path, Path]:
    """
    Return CNI plugins for pods that need a network: one makes a link from pod to node, one gives addresses.

    Few nodes have such pods, so these are built when the first one starts. Raises BuildError.
    """
    link = build.tool("ptp", _HERE / "cni", _PLUGINS + "main/ptp")
    return link, build.tool("host-local", _HERE / "cni", _PLUGINS + "ipam/host-local")


def _containerd(name: str) -> Path:
    return build.tool(name, _HERE / "containerd", _CONTAINERD + name, "-tags", _CONTAINERD_TAGS)


def _runc() -> Path:
    """Find runc: on the path, else Debian's, which is unpacked and not installed, else one that is built here."""
    if found := shutil.which("runc"):
        return Path(found)
    if shutil.which("apt-get") and shutil.which("dpkg"):
        return _debian_runc()
    try:
        # It enters namespaces in C, and without seccomp no sandbox of a pod starts.
        return build.tool("runc", _HERE / "runc", "github.com/opencontainers/runc", "-tags", "seccomp", cgo=True)
    except build.BuildError as error:
        raise build.BuildError(f"install runc, or a C compiler, pkg-config and libseccomp's headers: {error}") from None


def _debian_runc() -> Path:
    folder = build.cache_folder("runc")
    binary = folder / "debian" / "usr" / "sbin" / "runc"
    with build.locked(folder / "lock"):
        if not binary.exists():
            print("fetching Debian's runc (once)", file=sys.stderr, flush=True)
            _unpack(folder, folder / "debian")
    return binary


def _unpack(folder: Path, unpacked: Path) -> None:
    """Fetch Debian's package and unpack it. Raises BuildError."""
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as made:
        staging = Path(made)
        # The machine's own lists may be missing, and stay as they are.
        lists = ("-o", f"Dir::State::Lists={staging / 'lists'}", "-o", f"Dir::Cache={staging / 'cache'}")
        for name in ("lists", "cache/archives"):
            (staging / name / "partial").mkdir(parents=True)
        _run(["apt-get", "-qq", *lists, "update"], staging)
        _run(["apt-get", "-qq", *lists, "download", "runc"], staging)
        _run(["dpkg", "-x", *map(str, staging.glob("runc_*.deb")), "unpacked"], staging)
        (staging / "unpacked").rename(unpacked)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise build.BuildError(f"install runc: {' '.join(command)} failed: {done.stderr.strip()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m e2e.nodes.programs", description="Build the programs of a node.")
    parser.add_argument("kubernetes", nargs="?", metavar="VERSION", help=f"of {', '.join(versions.SUPPORTED)}")
    try:
        print(Programs.built(parser.parse_args().kubernetes))
    except (build.BuildError, versions.UnknownVersionError) as error:
        sys.exit(str(error))
