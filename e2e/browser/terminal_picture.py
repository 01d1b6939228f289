"""The picture of a terminal in docs/commands.md: what two commands print."""

import datetime as dt
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from e2e.browser import clusters
from e2e.browser.visit import Chromium
from e2e.controlplane.plane import REPOSITORY

_COLUMNS: Final = 118
_LINES: Final = 60
_EXAMPLE: Final = "examples/11-cannot-fit.yaml"
_FONTS: Final = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""What rich's SVG would load from elsewhere."""


def printed(*words: str) -> str:
    """Return what a command prints on a terminal, with its colours."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "NO_COLOR"}}
    command = [sys.executable, "-m", "scheduler", *words]
    done = subprocess.Popen(command, stdout=writer, env={**environment, "TERM": "xterm-256color"}, cwd=REPOSITORY)
    os.close(writer)
    found = b"".join(iter(lambda: _read(reader), b""))
    os.close(reader)
    done.wait()
    return found.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Read; a terminal whose other end is closed gives an error on Linux."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def drawn() -> str:
    """Return an SVG of two commands about the mixed cluster."""
    console = Console(record=True, width=_COLUMNS + 1, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        cluster, case = Path(folder) / "cluster.json", Path(folder) / "case.json"
        listed = {"apiVersion": "v1", "kind": "List", "items": list(clusters.mixed(dt.datetime.now(dt.UTC)))}
        cluster.write_text(json.dumps(listed), encoding="utf-8")
        printed("simulate", "-f", str(cluster), _EXAMPLE, "--save", str(case))
        for shown, words in (
            ("free", ("free", "-f", str(cluster))),
            ("explain pod/cannot-fit", ("explain", "pod/cannot-fit", "--snapshot", str(case))),
        ):
            console.print(Text.assemble(("$ ", "dim"), (f"dovetail {shown}", "bold")))
            console.print(Text.from_ansi(printed(*words)))
    return _FONTS.sub("", console.export_svg(title="dovetail"))


def draw(chromium: Chromium, path: Path) -> None:
    """Take the picture."""
    context = chromium.browser.new_context(viewport={"width": 1280, "height": 900}, device_scale_factor=1)
    seen = context.new_page()
    seen.set_content(f"<style>body{{margin:0}}svg{{display:block;width:1280px}}</style>{drawn()}")
    seen.locator("svg").screenshot(path=path)
    context.close()
