"""
Devices that are kept out of new allocations, or given last, for a while: by taints that this process alone knows.

`own_taints` holds them; `avoidance` is for devices that did not get ready, `suspicion` for those on which work failed.
"""
