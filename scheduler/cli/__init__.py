"""
The command line `dovetail`: parses arguments, loads the settings and runs a command.

One module for each command (`run`, `simulate`, `explain`, `defrag`, `replay`, `config`), each with `add` (its
arguments) and `execute` (what it does); `arguments` has what several commands share, `main` the entry point and
`version`. No code here touches the cluster. A command imports slow modules (client, solver) only when it runs.
"""

from scheduler.cli.main import main

__all__ = ["main"]
