"""What the image is: its packages, its configuration, and the commands that make it. Nothing here does anything."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from e2e.image import releases

SUITE = "bookworm"
PYTHON = "3.11"
"""The Python of the suite."""
GLIBC = "2_36"
"""The C library of the suite, as the platform tags of wheels have it."""
PACKAGES = ("python3", "ca-certificates", "libstdc++6")
"""Besides Debian's essential packages: kubeconfigs without a CA use the system's, OR-Tools needs the C++ library."""
DROPPED = ("doc", "info", "locale", "man")
"""Folders of /usr/share that the image does without; the licences in `doc` stay."""
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

HOME = "opt/dovetail"
SITE = f"{HOME}/lib/python{PYTHON}/site-packages"
INTERPRETER = f"/{HOME}/bin/python"
COMPILED = ("/usr/lib/python3", f"/usr/lib/python{PYTHON}", f"/{HOME}/lib")

APT = ("apt-get install", "mmdebstrap umoci skopeo debian-archive-keyring ca-certificates")


class ImageConfig(NamedTuple):
    """The configuration of the image, in the words of the OCI image specification."""

    user: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    working_dir: str
    exposed_ports: tuple[str, ...]
    env: Mapping[str, str]
    labels: Mapping[str, str]


CONFIG = ImageConfig(
    user="65532:65532",  # a number, so that runAsNonRoot can be checked; nothing is written outside /tmp
    entrypoint=(INTERPRETER, "-m", "scheduler"),
    cmd=("run",),
    working_dir="/tmp",  # noqa: S108 - of the image
    exposed_ports=("8080/tcp", "8081/tcp"),
    env=MappingProxyType(
        {
            "PATH": f"/{HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
    ),
    labels=MappingProxyType(
        {
            "org.opencontainers.image.title": "dovetail",
            "org.opencontainers.image.description": "A Kubernetes scheduler for devices (DRA) that decides jointly",
            "org.opencontainers.image.licenses": "Apache-2.0",
        }
    ),
)


def sources(snapshot: str) -> tuple[str, ...]:
    """
    Where the packages come from, as apt's sources: Debian's mirrors, or all of them as they were at a moment.

    Signatures alone would let whoever is between answer with an old list: the connection is encrypted.
    """
    host, moment = (
        ("https://snapshot.debian.org/archive", f"/{snapshot}") if snapshot else ("https://deb.debian.org", "")
    )
    return (
        f"deb {host}/debian{moment} {SUITE} main",
        f"deb {host}/debian{moment} {SUITE}-updates main",
        f"deb {host}/debian-security{moment} {SUITE}-security main",
    )


def base_command(stages: Sequence[Path], hashes: Path, root: Path, snapshot: str) -> tuple[str, ...]:
    """
    Say how mmdebstrap writes the whole root file system into the tar `root`.

    The files of `stages` go to /opt/dovetail. The hashes of the lists of packages, which Debian signs, go to the file
    `hashes`. Modules are compiled by the Python that runs them; that Python trusts what was compiled whatever the
    times of files are, so these can be the same for all.
    """
    hooks = (
        f'chroot "$1" python3 -m venv --without-pip /{HOME}',
        f'cd "$1"/{HOME} && rm -r include bin/[Aa]ctivate*',
        *(f"sync-in {shlex.quote(str(stage))} /{HOME}" for stage in stages),
        f'chroot "$1" {INTERPRETER} -m compileall -qf --invalidation-mode unchecked-hash {" ".join(COMPILED)}',
        f'cd "$1"/var/lib/apt/lists && sha256sum *InRelease > {shlex.quote(str(hashes))}',
        'rm "$1"/etc/resolv.conf "$1"/etc/hostname',  # of the machine that builds
    )
    exclusions = (
        *(f"path-exclude=/usr/share/{folder}/*" for folder in DROPPED),
        "path-include=/usr/share/doc/*/copyright",
    )
    return (
        *("mmdebstrap", "--quiet", "--variant=essential", f"--include={','.join(PACKAGES)}", f"--keyring={KEYRING}"),
        *(_valid_at(snapshot) if snapshot else ()),
        *(f"--dpkgopt={each}" for each in exclusions),
        *(f"--customize-hook={hook}" for hook in hooks),
        *(SUITE, str(root), *sources(snapshot)),
    )


def _valid_at(snapshot: str) -> tuple[str, ...]:
    """Have the lists of packages valid at a moment, and not today, before a script of any package runs."""
    check = f"{shlex.quote(sys.executable)} -I {shlex.quote(releases.__file__)}"
    return (
        '--aptopt=Acquire::Check-Valid-Until "false"',
        f'--extract-hook={check} "$1"/var/lib/apt/lists {shlex.quote(snapshot)}',
    )


def config_arguments(config: ImageConfig, version: str) -> tuple[str, ...]:
    """Give the configuration as arguments of `umoci config`."""
    labels = {**config.labels, "org.opencontainers.image.version": version}
    return (
        f"--config.user={config.user}",
        *(f"--config.entrypoint={part}" for part in config.entrypoint),
        *(f"--config.cmd={part}" for part in config.cmd),
        f"--config.workingdir={config.working_dir}",
        *(f"--config.exposedports={port}" for port in config.exposed_ports),
        *(f"--config.env={name}={value}" for name, value in config.env.items()),
        *(f"--config.label={name}={value}" for name, value in labels.items()),
    )
