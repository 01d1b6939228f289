"""
Kubernetes' scheduler_perf, run with kube-scheduler and with Dovetail in turns.

    workloads    which workloads there are: upstream's, and sizes of ours (`workloads.toml`)
    measure      one run of one workload with one scheduler
    throughput   what was measured, and the table of it
"""
