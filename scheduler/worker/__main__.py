"""`python -m scheduler.worker FD MEMORY_LIMIT_MIB`: the fork server of the solver's process; FD is its control socket."""

import socket
import sys

from scheduler.worker.fork_server import breed

if __name__ == "__main__":
    breed(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
