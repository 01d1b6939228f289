"""Prints the lines of `dovetail check`, each as soon as it is known."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TextIO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from scheduler.installation.installation_checks import CheckLine, CheckResult
from scheduler.observe import terminal, wrapping
from scheduler.simulation.printing import counted

_COLOURS: Final = {
    CheckResult.PASSED: "green",
    CheckResult.WARNING: "yellow",
    CheckResult.FAILED: "red",
    CheckResult.SKIPPED: "",
}
_RESULT_WIDTH: Final = max(map(len, CheckResult)) + 2
_CHECK_WIDTH: Final = 12


def show_line(line: CheckLine, to: TextIO) -> None:
    """Print a check, and below it what to do."""
    console = Console(file=to)
    width = console.width if to.isatty() else 0
    colour = _COLOURS[line.result]
    result = f"{line.result.value:<{_RESULT_WIDTH}}"
    if colour and console.color_system is not None and not console.no_color:
        result = Style.parse(colour).render(result, color_system=ColorSystem.STANDARD)
    indent = " " * (_RESULT_WIDTH + _CHECK_WIDTH)
    texts = [line.message, *([f"→ {line.next_step}"] if line.next_step else [])]
    lines = [part for text in texts for part in wrapping.wrapped(terminal.escaped(text), width - len(indent))]
    to.write(f"{result}{line.check:<{_CHECK_WIDTH}}{lines[0]}\n")
    to.writelines(f"{indent}{each}\n" for each in lines[1:])
    to.flush()


def show_end(lines: Sequence[CheckLine], to: TextIO) -> None:
    """Print how many checks ended how."""
    counts = Counter(line.result for line in lines)
    words = {each: counted(counts[each], "warning") for each in [CheckResult.WARNING]}
    parts = (words.get(each, f"{counts[each]} {each.value}") for each in CheckResult if counts[each])
    to.write(f"\n{', '.join(parts)}\n")
