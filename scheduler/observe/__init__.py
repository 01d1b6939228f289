"""
What can be seen from outside: log lines (`logs`), series (`metrics`) and health (`health`).

Every event name and every series of Dovetail stands here, once. Nothing here decides anything. The parts of the
shell are handed a `Metrics`, a `Health` and bound loggers; the composition root makes them and serves them.
"""
