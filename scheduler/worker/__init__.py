"""
The solver's process: it keeps a replica of the mirror, takes batches and gives plans.

Here live what goes over the pipe (`frames`) and what the replica has not been told yet (`feed`), the process itself
(`serve`), what it is forked from (`fork_server`, `__main__`) and what it forks (`child`), its keeper in the shell
(`process`: feed, watchdog, with `starting`, `life` and `limits`), what `scheduler.cycle` asks (`decider`: a checked
plan for every batch, whatever happens to the process), and what is seen of it all (`sight`, `record`). Nothing here
talks to the cluster.
"""
