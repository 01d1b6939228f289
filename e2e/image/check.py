"""
Runs what is in the image as the Deployment does: the user of its configuration on a read-only file system.

The image is unpacked by its digests from the layout that was written. Then each command has a namespace of processes,
mounts and network of its own, /tmp is empty, no capability is left, and none can be got.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from e2e.controlplane.plane import REPOSITORY
from e2e.fleet.fleets import demo_fleet
from e2e.image import recipe
from e2e.image.build import Built
from e2e.image.commands import ImageError, as_root, run

ENTER = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount --bind "$2" "$1/mnt"
mount -t tmpfs tmpfs "$1/tmp" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev"
root="$1" && shift 2 && exec chroot "$root" "$@"
"""
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts")
UNPRIVILEGED = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
EXAMPLE = "01-one-gpu-per-pod.yaml"
IMPORT_ALL = """
import importlib, pkgutil, scheduler, solver
for package in (scheduler, solver):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(scheduler.__file__)
"""
"""A program that imports every module that ships."""
CHILDREN = """
import os, pathlib, subprocess, sys, tempfile
import msgspec
from scheduler.page import fit_questions
from scheduler.visibility import VisibleNamespaces
from scheduler.worker import fork_server
hardware, example = sys.argv[1:]
folder = tempfile.mkdtemp()
for name in ("scheduler.py", "solver.py", "yaml.py", "msgspec.py"):
    pathlib.Path(folder, name).write_text("raise SystemExit('a module of the current folder was imported')")
os.chdir(folder)
server = fork_server.ForkServers(1024).take()
server.control.close()
print("worker:", server.process.wait(120))
question = fit_questions.FitQuestion(
    source=fit_questions.FitSource(files=(hardware,)),
    content=pathlib.Path(example).read_bytes(),
    namespace="default",
    wanted=None,
    namespaces=VisibleNamespaces(everything=True),
    sees_nodes=True,
)
command = [*fit_questions.COMMAND, str(os.getpid())]
answer = subprocess.run(command, input=msgspec.json.encode(question), stdout=subprocess.PIPE, check=True).stdout
print(msgspec.json.decode(answer)["sentence"])
"""
"""A program that starts the child processes in a folder with modules of the same names as those that they import."""
STAY_OUT = ("config", "e2e", "mypy", "pytest", "tests")
"""What belongs to development, and so to no image."""
RESTRICTED = """
import os
open("/tmp/new", "w").close()
def is_allowed(attempt, *arguments):
    try:
        attempt(*arguments)
    except OSError:
        return False
    return True
print(os.getuid(), os.getgid(), os.getgroups())
print([path for path in ("/opt/dovetail/new", "/new", "/etc/passwd") if is_allowed(open, path, "a")])
print(is_allowed(os.setuid, 0))
"""
"""A program that prints its user, which files it could change outside /tmp, and whether it could become root."""


class Unpacked(NamedTuple):
    """An unpacked image: its root file system, the process of its configuration, and a folder that is put at /mnt."""

    root: Path
    process: dict[str, Any]
    files: Path

    def run(self, *command: str) -> str:
        """Run a command in the image and return what it printed. Raise `ImageError` if it fails."""
        user = self.process["user"]
        identity = ("setpriv", f"--reuid={user['uid']}", f"--regid={user['gid']}", *UNPRIVILEGED)
        environment = ("env", "--ignore-environment", f"--chdir={self.process['cwd']}", *self.process["env"])
        enter = (*NAMESPACES, "sh", "-euc", ENTER, "sh", str(self.root), str(self.files))
        done = subprocess.run(
            as_root((*enter, *identity, *environment, *command)), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ImageError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def entrypoint(self, *arguments: str) -> str:
        """Run the image's own command with other arguments than its own, as a pod's `args` do."""
        return self.run(*self.process["args"][: -len(recipe.CONFIG.cmd)], *arguments)


def unpack(built: Built, work: Path) -> Unpacked:
    """Unpack an image into a folder of `work`, and lay files for its commands beside it."""
    bundle, files = work / "bundle", work / "files"
    unprivileged = () if as_root(()) == () else ("--rootless",)
    run("umoci", "unpack", *unprivileged, "--image", built.reference, str(bundle))
    files.mkdir()
    for path in (REPOSITORY / "config" / "default.yaml", REPOSITORY / "examples" / EXAMPLE):
        shutil.copy(path, files)
    fleet = demo_fleet()
    manifests = {"apiVersion": "v1", "kind": "List", "items": [*fleet.nodes, *fleet.classes, *fleet.slices]}
    (files / "hardware.json").write_text(json.dumps(manifests), encoding="utf-8")
    process = json.loads((bundle / "config.json").read_text(encoding="utf-8"))["process"]
    return Unpacked(bundle / "rootfs", process, files)


def check(unpacked: Unpacked, built: Built) -> Iterator[str]:
    """Give what holds, one sentence after the other. Raise `ImageError` at the first that does not."""
    for each in CHECKS:
        each(unpacked, built)
        yield (each.__doc__ or "").rstrip(".")


def _version(image: Unpacked, built: Built) -> None:
    """`version` gives the version of the wheel and the Python of Debian."""
    _expect(image.entrypoint("version"), f"dovetail {built.tag} (Python {recipe.PYTHON}.")


def _commands(image: Unpacked, built: Built) -> None:
    """The commands `dovetail` and `kubectl-dovetail` are on the path."""
    for command in ("dovetail", "kubectl-dovetail"):
        _expect(image.run(command, "version"), f"dovetail {built.tag} ")


def _modules(image: Unpacked, _built: Built) -> None:
    """Every module has what it imports."""
    _expect(image.run("python", "-c", IMPORT_ALL), f"/{recipe.SITE}/scheduler/__init__.py")


def _config(image: Unpacked, _built: Built) -> None:
    """`config --check` accepts the default configuration."""
    image.entrypoint("config", "--check", "/mnt/default.yaml")


def _simulate(image: Unpacked, _built: Built) -> None:
    """`simulate` places the pods of an example."""
    printed = image.entrypoint("simulate", "-f", "/mnt/hardware.json", "-f", f"/mnt/{EXAMPLE}")
    _expect(printed, "3 of 3 pods placed")


def _children(image: Unpacked, _built: Built) -> None:
    """The worker and the process for questions of the page start, and import nothing from the current folder."""
    printed = image.run("python", "-c", CHILDREN, "/mnt/hardware.json", f"/mnt/{EXAMPLE}")
    _expect(printed, "worker: 0\nIt fits: 3 pods would start now.")


def _restricted(image: Unpacked, _built: Built) -> None:
    """The user is not root and cannot become root, and can change files in /tmp alone."""
    user, group = recipe.CONFIG.user.split(":")
    _expect(image.run("python", "-c", RESTRICTED), f"{user} {group} []\n[]\nFalse\n")


def _lean(image: Unpacked, _built: Built) -> None:
    """Tests, their tools, manual pages and lists of packages are not in it."""
    unwanted = [f"{recipe.SITE}/{name}" for name in STAY_OUT]
    unwanted += ["usr/share/man/man1", "etc/resolv.conf", "etc/hostname", "usr/bin/apt-get"]
    found = [path for path in unwanted if (image.root / path).exists()]
    found += [str(path) for path in (image.root / "var/lib/apt/lists").glob("*Packages*")]
    if found:
        raise ImageError(f"these do not belong into the image: {', '.join(found)}")


def _compiled(image: Unpacked, _built: Built) -> None:
    """Every module of Dovetail is compiled."""
    for package in ("scheduler", "solver"):
        for source in (image.root / recipe.SITE / package).rglob("*.py"):
            if not (
                source.parent / "__pycache__" / f"{source.stem}.cpython-{recipe.PYTHON.replace('.', '')}.pyc"
            ).exists():
                raise ImageError(f"{source} is not compiled: each start of the read-only image would compile it again")


def _archive(_image: Unpacked, built: Built) -> None:
    """The archive for `docker load` has the same layers and configuration."""
    layout, archive = (
        json.loads(run("skopeo", "inspect", "--config", place))
        for place in (f"oci:{built.reference}", f"docker-archive:{built.archive}")
    )
    if any(layout[part] != archive[part] for part in ("config", "rootfs", "created")):
        raise ImageError(f"{built.archive} differs from {built.layout}")


def _expect(printed: str, words: str) -> None:
    if words not in printed:
        raise ImageError(f"expected {words!r}, and it printed:\n{printed}")


CHECKS: tuple[Callable[[Unpacked, Built], None], ...] = (
    _version,
    _commands,
    _modules,
    _config,
    _simulate,
    _children,
    _restricted,
    _lean,
    _compiled,
    _archive,
)
