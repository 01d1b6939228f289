"""
What users read about their pods (conditions and events), and operators about scheduling attempts (metrics).

    conditions          reason and message of PodScheduled=False
    events              Kubernetes events as values
    status_queue        which condition or event is written next; its `fair_queue`
    status_writer       writes them, within the `rate_limits`
    pod_groups          the condition of PodGroups about their scheduling
    quota_status        the status of DeviceQuotas, as `quota_conditions` has it
    unreadable_objects  events and metrics about objects that cannot be decoded
    awaited_templates   which ResourceClaimTemplate does not exist, and what its claims use
    refused_claims      which ResourceQuota keeps a claim from being created
    recent_answers      what was read of objects that are not watched, for a few seconds
    attempt_metrics     kube-scheduler's series about attempts and queues
    leader_report       how the leader does, in its Lease

`misspelled_schedulers` reports pods whose schedulerName is nearly one of ours.

Nothing is decided here, and no pod waits for a write of this package.
"""
