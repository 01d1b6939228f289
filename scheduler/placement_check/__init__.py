"""
Kueue's admission check `dovetail.dev/placement`: a Workload gets Ready when its pods have room, and not before.

    podset_pods     the pods and claims of a Workload that does not run yet, as values
    check_states    what is to be done about a Workload next: pure, the time is an argument
    check_writes    the requests: the state of a check, its condition Active, parking and activating
    placement_check the loop between watches, queue and API server

A Workload that holds quota is a gang of pods that do not exist. They wait in the scheduling queue like any other, are
decided together with all pods that wait, and are never written: where they are placed, their room is held instead.
"""
