"""Everything below /opt/dovetail that comes from wheels, in folders of this machine: the libraries, and Dovetail."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import installer
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile

from e2e.controlplane.plane import REPOSITORY
from e2e.image import recipe
from e2e.image.commands import uv

SITE = Path(recipe.SITE).relative_to(recipe.HOME)


def stage_dependencies(folder: Path) -> Path:
    """Install the locked libraries, and give the folder of their modules."""
    locked = folder.with_suffix(".txt")
    export = (uv(), "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--output-file", str(locked))
    subprocess.run(export, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True)
    site = folder / SITE
    site.mkdir(parents=True)
    install = (uv(), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(site))
    # Nothing is resolved and nothing is built from source.
    exact = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy", "-r", str(locked))
    # The image's Python and C library, whatever this machine has.
    wanted = ("--python-version", recipe.PYTHON, "--python-platform", f"{platform.machine()}-manylinux_{recipe.GLIBC}")
    subprocess.run((*install, *exact, *wanted), cwd=REPOSITORY, check=True)
    shutil.rmtree(site / "bin")  # commands of the libraries, which would start this machine's Python
    return site


def stage_wheel(folder: Path, wheel: Path) -> Path:
    """Install the wheel with its commands, as if `folder` were /opt/dovetail, and give the folder of its modules."""
    site = str(folder / SITE)
    scheme = {"purelib": site, "platlib": site, "scripts": str(folder / "bin"), "data": str(folder)}
    destination = SchemeDictionaryDestination(scheme, interpreter=recipe.INTERPRETER, script_kind="posix")
    with WheelFile.open(wheel) as source:
        installer.install(source, destination, {"INSTALLER": b"installer\n"})
    return folder / SITE
