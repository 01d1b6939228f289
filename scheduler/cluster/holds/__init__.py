"""
Room that is held for pods to come (DeviceHold), in the cluster cache.

- `hold_cache`: the holds, with what no watch has shown yet, and their open places by node, pool and pod.
- `held_conflicts`: what others have of held room, and what a unit would take of it.
- `held_releases`: which places have what comes free.
"""
