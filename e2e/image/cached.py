"""The image of this checkout, as `make image` builds it, kept in the user's cache folder for tests."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from e2e.controlplane.build import cache_folder, locked
from e2e.controlplane.plane import REPOSITORY
from e2e.image import commands
from e2e.image.build import Order, build

_WHEEL = ("build", "--quiet", "--wheel", "--require-hashes", "--build-constraints", "deploy/build/backend.txt")
"""What `make wheel` does."""


def archive(name: str, folder: Path) -> Path:
    """
    Put the archive for `docker load`, which calls the image `name`, into a folder and return its path.

    The cache has one image. It is built anew (minutes) where what is in it has changed, but for Debian's packages,
    which are those of the day on which it was built. Raises ImageError.
    """
    commands.require()
    wheel = _wheel(folder)
    cache = cache_folder("image")
    kept = cache / f"{_key(name, wheel)}.tar"
    with locked(cache / "lock"):
        if not kept.exists():
            for old in cache.glob("*.tar"):
                old.unlink()
            print(f"building {name} (once)", file=sys.stderr, flush=True)
            _build(name, wheel, kept)
        return Path(shutil.copy(kept, folder / "dovetail-image.tar"))


def _wheel(folder: Path) -> Path:
    done = subprocess.run(
        (commands.uv(), *_WHEEL, "--out-dir", str(folder)), cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise commands.ImageError(f"the wheel cannot be built:\n{done.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def _key(name: str, wheel: Path) -> str:
    digest = hashlib.sha256(name.encode())
    for path in (wheel, REPOSITORY / "uv.lock", *sorted(Path(__file__).parent.glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(name: str, wheel: Path, kept: Path) -> None:
    """Build the image and keep its archive."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    order = Order(wheel, project["version"], name, snapshot="", created=0)
    # Not beneath the cache: mmdebstrap's own user reads what it puts into the image.
    with tempfile.TemporaryDirectory(prefix="dovetail-image-") as made:
        output, work = Path(made) / "output", Path(made) / "work"
        output.mkdir()
        work.mkdir()
        built = build(order, output, work)
        staged = kept.with_suffix(".new")
        shutil.copy(built.archive, staged)
        staged.rename(kept)
