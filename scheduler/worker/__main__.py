"""`python -m scheduler.worker FD MEMORY_LIMIT_MIB`: the solver's process; FD is its end of the pipe."""

import signal
import socket
import sys

from scheduler.worker.serve import serve
from solver import rehearse

if __name__ == "__main__":
    # A terminal's Ctrl-C goes to the whole process group: it is the shell that decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rehearse()  # before the memory is limited, so that what everybody needs counts for nobody
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
