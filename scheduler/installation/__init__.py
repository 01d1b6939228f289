"""
An installation of Dovetail in a cluster, for the commands that are about it: `status`, `check`, `pause`, `resume`.

    installed_pods    the scheduler's pods, its Lease and what the leader says there, as the API server has them
    account_rights    which rights the scheduler's account lacks
    cluster_findings  what is to be said of the cluster: queue, devices, drivers, pools, other schedulers
    findings          what is to be said of the scheduler: replicas, leader, rights, watches, decisions
    status_output     prints findings, as a screen or a document
    pausing           pauses and resumes the scheduler

    installation_checks  what `dovetail check` looks at
    gate_probes          which fields of feature gates the API server keeps
    trial_pod            one pod with a claim, made, watched and removed
"""
