"""`make release ARGS=--local`: chart archive, install.yaml and checksums beside wheel, image and SBOMs in `dist`."""

import argparse
import hashlib
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from e2e.controlplane import build
from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.controlplane.processes import ComponentError
from e2e.helm.command import ChartError, Helm
from e2e.helm.templates import CHART
from e2e.release import checked, install_file

CHECKSUMS = "SHA256SUMS"
_MADE_BEFORE = ("*.whl", "*-image.tar", "image.cdx.json", "sbom.cdx.json")
"""What other targets have put into the folder."""
_BLOCK = 1024 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 where something is missing or does not hold."""
    options = _parser().parse_args(arguments)
    if not options.local:
        print("make release ARGS=--local makes the files; a tag publishes them (docs/releasing.md)", file=sys.stderr)
        return 2
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    missing = [pattern for pattern in _MADE_BEFORE if not list(options.output.glob(pattern))]
    if missing:
        print(f"{options.output} has no {', '.join(missing)}: run make image sbom", file=sys.stderr)
        return 1
    try:
        _make(options.output, options.image, version)
    except (build.BuildError, ChartError, checked.InstallError, ComponentError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _make(output: Path, image: str, version: str) -> None:
    with tempfile.TemporaryDirectory(prefix="dovetail-release-") as folder:
        print(Helm(Path(folder))("package", str(CHART), "--destination", str(output)).strip(), flush=True)
    path = output / "install.yaml"
    path.write_text(install_file.text(image, version), encoding="utf-8")
    with ControlPlane.start() as plane:
        for sentence in checked.check(plane, path):
            print(f"ok  install.yaml: {sentence}", flush=True)
    sums = output / CHECKSUMS
    sums.write_text(checksums(output), encoding="utf-8")
    print(sums.read_text(encoding="utf-8"), end="")


def checksums(folder: Path) -> str:
    """Return the lines of `sha256sum` for the files of a folder, by name; `sha256sum --check` takes them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in {CHECKSUMS, ".gitignore"})
    return "".join(f"{_sha256(path)}  {path.name}\n" for path in files)


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("--local", action="store_true", help="make the files in dist, and publish nothing")
    parser.add_argument("--image", required=True, metavar="NAME:TAG", help="where nodes pull the image of install.yaml")
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="DIR", help="where the files are (dist)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
