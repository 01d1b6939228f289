"""
Writes what a plan decides to the API server, and puts right what crashes and lost answers leave behind.

The path of a unit (a pod, or the pods of gangs that are placed together):

    commit                   the protocol: order of writes, what is revocable, what decides after a lost answer
    affinity                 a pod is bound only after the pods that its required affinity needs
    claims, own_writes       claim writes: finalizer, then allocation and reservation in one
    speculative_finalizers   the finalizers of a few pods, while these are decided
    extended_resource_claims claims that the scheduler creates for extended resources (KEP-5004)
    volumes                  volume binding (WaitForFirstConsumer)
    binding_conditions,
    prebind                  waits for devices (KEP-5007) and volumes before the binding
    live_pod_groups          a live read of the PodGroups that have reserved claims, before the binding
    bindings                 the binding; node-allocatable resources of claims (KEP-5517)
    rollback                 removes reservations and allocations of pods that are not bound
    evictions                preemptions: nominate, try, evict, within a rate limit

In the background: `stale_allocations` frees devices that no running pod uses. `manually_bound` reports pods that got
their node by hand. `local_taints` keeps failed devices out of new allocations. `readmission` reads objects again that
were shed because memory is short. `restore` recovers waiting times after a restart.

Nothing is decided here: a unit that no longer fits goes back to the queue with its reason. Called by `scheduler.cycle`.
"""
