"""
The command line: arguments become settings, settings become a run.

One file a command, each with `add` (its arguments) and `execute` (what it does). Here may not live: anything about
the cluster, or an import at the top that takes long; a command imports what it runs when it runs. Only
`scheduler.__main__` calls it.
"""

from scheduler.cli.main import main

__all__ = ["main"]
