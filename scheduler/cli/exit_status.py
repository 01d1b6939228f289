"""The exit statuses of all commands. docs/commands.md lists them for users."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """What a command's exit status says. Scripts rely on the numbers."""

    OK = 0
    """The command did what it was asked; for a question: the pods are placed or fit, or there is something to list."""
    NO = 1
    """The answer is no: a pod waits, something does not fit, or there is no plan."""
    WRONG = 2
    """Arguments are wrong, what they name does not exist, or files, objects or the API server cannot be read."""
    INCOMPLETE = 3
    """
    The answer was printed, but it may be wrong: the caller may not list some kinds, or the configuration or the
    reserved nodes are not known. It replaces `OK` and `NO`.
    """
    DEFECT = 70
    """A defect of Dovetail (EX_SOFTWARE of sysexits.h)."""
    INTERRUPTED = 130
    """Ctrl-C, as a shell reports SIGINT."""
    READER_GONE = 141
    """The reader of the output has gone (`dovetail … | head`), as a shell reports SIGPIPE."""
