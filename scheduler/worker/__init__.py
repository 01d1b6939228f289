"""
The worker process: it keeps a replica of the cluster, takes batches and returns checked plans.

The shell starts a fork server (`python -m scheduler.worker`, in `__main__`), which has imported the solver and solved a
first case. The fork server forks a worker within milliseconds, and another one whenever a worker ends. The worker keeps
a replica of the shell's `Cluster`: the shell sends it every change (`change_log`) and, with each batch, its whole
ledger of assumed writes. A batch is decided in the worker itself. Costly pods, and pods with which a worker ended
(suspected poison pods), are decided in isolation: the worker forks a child with separate limits and goes on with the
batches.

In the shell:

- `decider`: what `scheduler.cycle` calls. It gives a checked plan for every batch, even while there is no worker.
- `evaluated_objects`: whether a costly plan still stands on the objects that its selectors were evaluated on.
- `supervisor`: starts the worker, keeps its replica up to date, asks it, and kills it when it takes too long
  (watchdog).
- `fork_server`: launches the fork server, the first one before the rest of the scheduler is imported.
- `solver_process`: the fork server and one worker as the shell sees them; `change_log`: what the replica has not got
  yet.
- `decision_limits`: the limits of decisions, from the settings; `telemetry`: logs, series, readiness.
- `recording`: saves a decision's input as a file, for bug reports and `dovetail replay`.

In the worker: `serve`, its loop; `child`, the isolated decision; on both sides `frames`, the messages. Nothing here
talks to the API server.
"""
