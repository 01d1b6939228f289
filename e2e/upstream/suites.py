"""Which packages of `test/integration` are a suite, and their test binaries, built once and cached."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane import build
from e2e.controlplane.build import BuildError
from e2e.upstream import source

KUBERNETES = ("1.36", "1.37")
DRA = {"all": "dra/all", "default": "dra/default", "ga": "dra/ga"}
SHORT = "|".join(
    f"TestDRA/all/{test}$"
    for test in (
        "AdminAccess",
        "CompatibilityGroups",
        "DRANodeAllocatableResources",
        "DerivedAttributes",
        "DeviceBindingConditions",
        "ExplicitExtendedResource",
        "ImplicitExtendedResource",
        "InvalidResourceSlices",
        "NoScheduleWithV1Rule",
        "OptionalNodeOperations",
        "PartitionableDevices",
        "PodGroup",
        "PrioritizedList",
        "PrioritizedListScoring",
        "ShareResourceClaimSequentially",
    )
)
"""The tests of `dra/all` in which the scheduler decides most in a few minutes: a part of `make test`."""


@dataclass(frozen=True, slots=True)
class Binary:
    """The compiled tests of one package."""

    package: str
    path: Path


def prefix(package: str) -> str:
    """Return what precedes a test's name in a table: packages share names, but those of `dra` do not."""
    return "" if package.startswith("dra/") else package.removeprefix("scheduler/") + "/"


def packages(kubernetes: str, suite: str, gates: Sequence[str]) -> tuple[str, ...]:
    """
    Return the packages of a suite; `gates` are the parts of `dra`, all of them where none is named.

    A package that starts no etcd can run nowhere but in Kubernetes' own scripts; 1.36 has one, which has no scheduler.
    """
    if suite == "dra":
        return tuple(DRA[each] for each in gates or DRA)
    module = _module(build.go_command(), kubernetes)
    starting = (path for path in (module / suite).rglob("*_test.go") if "framework.EtcdMain(" in path.read_text())
    folders = {path.parent.relative_to(module).as_posix() for path in starting}
    return tuple(sorted(folders))


def binaries(kubernetes: str, packages: Iterable[str]) -> list[Binary]:
    """Return the binaries of packages; builds those that the cache lacks (minutes). Raises BuildError."""
    go = build.go_command()
    module = _module(go, kubernetes)
    return [_binary(go, kubernetes, module, package) for package in packages]


def etcd_folder(kubernetes: str) -> Path:
    """Return a folder with a program `etcd`, for the PATH: the control plane's binary knows its parts by name."""
    folder = build.controlplane_binary(kubernetes).parent / "path"
    folder.mkdir(exist_ok=True)
    link = folder / "etcd"
    if not link.is_symlink():
        link.symlink_to(Path("..", "controlplane"))
    return folder


def module(kubernetes: str) -> Path:
    """Return the folder of the source of a version's tests. Raises BuildError."""
    return _module(build.go_command(), kubernetes)


def module_cache() -> str:
    """Return Go's folder of modules."""
    command = [*build.go_command(), "env", "GOMODCACHE"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _module(go: tuple[str, ...], kubernetes: str) -> Path:
    """Return the folder of the module's source; writes it where the cache lacks it."""
    folder = build.cache_folder("upstream") / f"{kubernetes}-{_key(go, kubernetes)}"
    with build.locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            staging = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder.parent))
            try:
                source.write(go, build.environment(), kubernetes, staging)
                staging.chmod(0o755)
                staging.rename(folder)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return folder


def _binary(go: tuple[str, ...], kubernetes: str, module: Path, package: str) -> Binary:
    path = module / "bin" / (package.replace("/", "-") + ".test")
    with build.locked(module.with_name(f"{module.name}.lock")):
        if not path.exists():
            print(f"building the tests of {package}, Kubernetes {kubernetes} (once; minutes)", file=sys.stderr)
            unfinished = path.with_suffix(".unfinished")
            command = [*go, "test", "-c", "-ldflags=-s -w", "-o", str(unfinished), f"./{package}"]
            done = subprocess.run(
                command, cwd=module, env=build.environment(), capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise BuildError(f"{' '.join(command)} in {module}:\n{done.stderr.strip()}")
            unfinished.rename(path)
    return Binary(package, path)


def _key(go: tuple[str, ...], kubernetes: str) -> str:
    digest = hashlib.sha256((build.go_version(go) or "").encode())
    for path in source.inputs(kubernetes):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
