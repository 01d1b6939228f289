"""
The command line `dovetail`: parses arguments, loads the settings and runs a command.

- `main` is the entry point. It lists the commands and imports the module of the one that is called: each module has
  the name of its command, with `add` (its arguments) and `execute` (what it does).
- `arguments` and `targets` are what commands share of their arguments, `sources` reads what they show, `exit_status`
  has what they return.

A start takes a twentieth of a second: modules import the solver, the settings and the cluster's client in functions,
when they use them. No code here touches the cluster.
"""

from scheduler.cli.main import flushed, main

__all__ = ["flushed", "main"]
