"""`python -m scheduler.worker FD MEMORY_LIMIT_MIB`: what solver's processes are forked from; FD: a control socket."""

import socket
import sys

from scheduler.worker.fork_server import breed

if __name__ == "__main__":
    breed(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
