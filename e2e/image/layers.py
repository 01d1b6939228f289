"""The layers of the image: what changes seldom comes first, so that a new version of Dovetail is a small download."""

import copy
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from e2e.image import recipe


def own_paths(stage: Path) -> tuple[str, ...]:
    """The paths inside the image below which everything comes from the wheel that is staged in a folder."""
    site = Path(recipe.SITE).relative_to(recipe.HOME)
    return tuple(sorted(f"{recipe.HOME}/{each.relative_to(stage)}" for each in _children(stage, site, Path("bin"))))


def _children(stage: Path, *folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from (stage / folder).iterdir()


def layer_of(path: str, own: Sequence[str]) -> int:
    """Give the layer of a path: 0 is Debian, 1 the libraries, 2 Dovetail, whose paths are those below `own`."""
    if not _is_below(path, recipe.HOME):
        return 0
    return 2 if any(_is_below(path, each) for each in own) else 1


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def split(root: Path, layers: Sequence[Path], own: Sequence[str]) -> None:
    """
    Write a tar for each layer from the tar of the whole root file system, in the same order.

    Device nodes are left out: those of /dev are the container runtime's.
    """
    with ExitStack() as stack:
        whole = stack.enter_context(tarfile.open(root))
        parts = [stack.enter_context(tarfile.open(each, "w", format=tarfile.PAX_FORMAT)) for each in layers]
        for member in whole:
            entry = _entry(member)
            if entry.name != "." and not member.isdev():
                parts[layer_of(entry.name, own)].addfile(entry, whole.extractfile(member) if member.isreg() else None)


def _entry(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """
    An entry as the image has it: without `./`; in /opt/dovetail root owns everything and everyone may read it.

    Debian's own entries keep their owner and mode. Those of wheels would have this machine's user and umask.
    """
    entry = copy.copy(member)
    entry.name = member.name.removeprefix("./")
    if member.islnk():
        entry.linkname = member.linkname.removeprefix("./")
    entry.pax_headers = {name: value for name, value in member.pax_headers.items() if name not in {"path", "linkpath"}}
    if _is_below(entry.name, recipe.HOME):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o777 if member.issym() else 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return entry
