"""
Jobs that arrive, wait in one queue and end: public traces of training clusters, by policies and by Dovetail.

    make traces ARGS="queues --traces FOLDER"

- `job_traces`: jobs and the machines that they are for, read as they are published;
- `job_simulation`: time, from one arrival or end to the next, and who has which GPU;
- `job_policies`: first fit, best fit, and kube-scheduler's one pod after the other;
- `job_batches`: Dovetail, with all waiting pods in one batch;
- `job_figures`: waits by size, GPUs in use, makespan; `job_bound`: the most that could be in use;
- `job_report`: as a table and as pictures;
- `queue_command`: what is run, kept and shown.
"""
