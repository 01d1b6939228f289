"""Pages of `docs` that a person follows step by step, followed by a test."""

import itertools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from e2e.controlplane.plane import REPOSITORY, ControlPlane

DOCS: Final = REPOSITORY / "docs"
_FILE: Final = re.compile(r"# ([\w-]+\.yaml)\n")
_HEADING: Final = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_COMMAND: Final = re.compile(r"(?:kubectl|dovetail) ")


class Guide:
    """
    A page, or a section of one (`PAGE.md#HEADING`).

    Its files lie in a folder, and its commands run there, each once and in the order of the page.

    A block of the page is indented. One that begins with `# NAME.yaml` is a file; the lines of one that begins with
    kubectl or dovetail are commands.
    """

    def __init__(self, page: str, plane: ControlPlane, folder: Path) -> None:
        of_page = list(blocks(text_of(page)))
        self.folder = folder
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(plane.kubeconfig),
            "PATH": f"{plane.kubectl_binary.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        self._commands = [line for block in of_page if _COMMAND.match(block) for line in block.splitlines()]
        for block in of_page:
            if named := _FILE.match(block):
                (folder / named[1]).write_text(block, encoding="utf-8")

    def run(self, beginning: str) -> str:
        """Run the next command, which has to begin so, and return what it prints; it must succeed."""
        command = self.skip(beginning)
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def skip(self, beginning: str) -> str:
        """Return the next command, which has to begin so, and leave it undone."""
        assert self._commands, f"the page has no command after the last one, {beginning!r} is expected"
        command = self._commands.pop(0)
        assert command.startswith(beginning)
        return command

    def end(self) -> None:
        """Check that no command of the page is left."""
        assert self._commands == []


def text_of(page: str) -> str:
    """Return the text of a page, or of a section with its sections."""
    name, _, section = page.partition("#")
    text = (DOCS / name).read_text(encoding="utf-8")
    if not section:
        return text
    headings = [(each.start(), len(each[1]), anchor(each[2])) for each in _HEADING.finditer(text)]
    begin, depth = next((at, depth) for at, depth, heading in headings if heading == section)
    end = next((at for at, level, _ in headings if at > begin and level <= depth), len(text))
    return text[begin:end]


def anchor(heading: str) -> str:
    """Return the name by which links reach a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def blocks(text: str) -> Iterator[str]:
    """Yield the indented blocks, without their indentation."""
    lines = text.splitlines(keepends=True)
    for is_block, group in itertools.groupby(lines, lambda line: line.startswith("    ") or not line.strip()):
        block = textwrap.dedent("".join(group)).strip("\n")
        if is_block and block:
            yield from _parts(block + "\n")


def _parts(block: str) -> Iterator[str]:
    """Divide what only a blank line divides: a file, and the commands behind it."""
    part = ""
    for paragraph in re.split(r"(?<=\n)\n", block):
        if _COMMAND.match(paragraph) and part:
            yield part
            part = ""
        part += paragraph
    yield part
