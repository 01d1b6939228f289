"""`make measure ARGS=scale`: what it counts of processes, and how it writes figures."""

import subprocess
import sys
import time

from e2e.scale import figures, process_use
from e2e.scale.figures import Figure

_BURN = "import time\nwhile time.process_time() < 0.4: pass"  # the kernel counts in ticks, and may leave some out
_PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', '''{_BURN}'''])\nprint(flush=True)\ninput()"


def test_the_cpu_time_of_children_that_have_ended_counts() -> None:
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process_use.cpu_seconds(process.pid) >= 0.3
        assert process_use.memory_mib(process.pid) > 1
        process.communicate("\n")


def test_a_process_that_runs_below_another_is_of_its_family() -> None:
    parent = [sys.executable, "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"]
    with subprocess.Popen(parent, stdin=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while len(process_use.family(process.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(process_use.family(process.pid)) == 2
        process.communicate(b"\n")


def test_figures_are_lines_of_a_table() -> None:
    table = list(figures.lines([Figure("idle", "20 nodes", "0.1 %", "3 %"), Figure("memory", "20 nodes", "80 MiB")]))
    assert table == [
        "| what | size | measured | target |",
        "|---|---|---|---|",
        "| idle | 20 nodes | 0.1 % | 3 % |",
        "| memory | 20 nodes | 80 MiB |  |",
    ]
