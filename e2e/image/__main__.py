"""`make image`: builds the image into dist, unpacks it and runs it; 1 where something does not work."""

import argparse
import re
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from e2e.controlplane.plane import REPOSITORY
from e2e.image import bill, check, commands
from e2e.image.build import Order, build, digest

MOMENT = re.compile(r"\d{8}T\d{6}Z")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _parser().parse_args(arguments)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    order = Order(options.wheel, project["version"], options.name, options.snapshot, options.created)
    try:
        commands.require()
        with tempfile.TemporaryDirectory(prefix="dovetail-image-") as folder:
            _make(order, options.output, Path(folder), is_repeated=options.twice)
    except commands.ImageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _make(order: Order, output: Path, folder: Path, *, is_repeated: bool) -> None:
    output.mkdir(exist_ok=True)
    (folder / "first").mkdir()
    built = build(order, output, folder / "first")
    unpacked = check.unpack(built, folder)
    for sentence in check.check(unpacked, built):
        print(f"ok  {sentence}", flush=True)
    if is_repeated:
        (folder / "second").mkdir()
        again = build(order, folder, folder / "second")
        if digest(again) != digest(built):
            raise commands.ImageError(f"a second build gives {digest(again)}, the first gave {digest(built)}")
        print("ok  A second build gives the same digest")
    sbom = output / "image.cdx.json"
    sbom.write_text(bill.text(order, digest(built), unpacked.root, built.releases), encoding="utf-8")
    print(
        f"{built.layout} (OCI image layout, {digest(built)})\n{built.archive} (docker load, podman load)\n{sbom} (SBOM)"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument("--wheel", type=Path, required=True, metavar="FILE", help="the wheel of make wheel")
    parser.add_argument("--name", required=True, help="name and tag that the archive gives the image")
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="DIR", help="where the files go (dist)")
    parser.add_argument("--created", type=int, required=True, metavar="SECONDS", help="when, in seconds since 1970")
    parser.add_argument(
        "--snapshot",
        type=_moment,
        default="",
        metavar="MOMENT",
        help="Debian as it was, as in 20261125T000000Z (today)",
    )
    parser.add_argument("--twice", action="store_true", help="build again, and compare the digests")
    return parser


def _moment(text: str) -> str:
    if text and not MOMENT.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no moment of Debian's archive: write one like 20261125T000000Z")
    return text


if __name__ == "__main__":
    sys.exit(main())
