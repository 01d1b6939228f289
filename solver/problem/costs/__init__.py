"""
Costs of places that are all allowed: preferences and scores.

- `cost_model`: costs of a class on a node, of pods that spread, and of pods without the pods that they prefer;
- `preferences`: preferred affinity, PreferNoSchedule taints and soft topology spread;
- `scores`: spread, least allocated, balance and image locality of pods without devices.

Nothing here forbids anything. Computed while a problem is prepared; greedy, model and objective values read it.
"""
