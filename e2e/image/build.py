"""Builds the image: a root file system, its layers, and the files in `dist`."""

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import NamedTuple

from e2e.image import layers, recipe, staging
from e2e.image.commands import as_root, run


class Order(NamedTuple):
    """What is to be built: `created` is when, in seconds since 1970; `snapshot` is empty for Debian as it is today."""

    wheel: Path
    version: str
    name: str
    snapshot: str
    created: int


class Built(NamedTuple):
    """An OCI image layout with its tag, an archive of the same image, and the hashes of Debian's lists of packages."""

    layout: Path
    tag: str
    archive: Path
    releases: str

    @property
    def reference(self) -> str:
        """The image as umoci names it."""
        return f"{self.layout}:{self.tag}"


def build(order: Order, output: Path, work: Path) -> Built:
    """Build the image into `output`; `work` is an empty folder that may go afterwards."""
    dependencies, own = work / "dependencies", work / "dovetail"
    staging.stage_dependencies(dependencies)
    staging.stage_wheel(own, order.wheel)
    root, releases = work / "root.tar", work / "releases"
    base = recipe.base_command((dependencies, own), releases, root, order.snapshot)
    # One time for all files, so that an unchanged layer has the same bytes, and so the same digest, in each version.
    run(*as_root(("env", "SOURCE_DATE_EPOCH=0", *base)))
    tars = [work / f"{name}.tar" for name in ("layer-debian", "layer-dependencies", "layer-dovetail")]
    layers.split(root, tars, layers.own_paths(own))
    layout, archive = output / "image", output / f"dovetail-{order.version}-image.tar"
    shutil.rmtree(layout, ignore_errors=True)
    archive.unlink(missing_ok=True)
    built = Built(layout, order.version, archive, releases.read_text(encoding="utf-8"))
    _write_layout(order, built, tars)
    run("skopeo", "copy", "--quiet", f"oci:{built.reference}", f"docker-archive:{archive}:{order.name}")
    return built


def _write_layout(order: Order, built: Built, tars: list[Path]) -> None:
    created = dt.datetime.fromtimestamp(order.created, dt.UTC).isoformat()
    run("umoci", "init", "--layout", str(built.layout))
    run("umoci", "new", "--image", built.reference)
    origins = ("; ".join(recipe.sources(order.snapshot)), "the locked packages of uv.lock", order.wheel.name)
    for tar, origin in zip(tars, origins, strict=True):
        history = (f"--history.created={created}", f"--history.created_by={origin}")
        run("umoci", "raw", "add-layer", "--image", built.reference, *history, str(tar))
    arguments = recipe.config_arguments(recipe.CONFIG, order.version)
    run("umoci", "config", "--image", built.reference, "--no-history", f"--created={created}", *arguments)
    run("umoci", "gc", "--layout", str(built.layout))


def digest(built: Built) -> str:
    """Return the digest of the image's manifest."""
    index = json.loads((built.layout / "index.json").read_text(encoding="utf-8"))
    (manifest,) = index["manifests"]
    return str(manifest["digest"])
