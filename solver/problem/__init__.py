"""
The dense form of a snapshot and a batch: ints instead of keys, equivalence classes of pods, groups of equal nodes.

Start with `prepare`, which builds it in named steps, and `problem`, which is the result. In the order of use:

- `devices`: the inventory, devices in use, and the device layout of a batch;
- `batch_selectors`, `charging`: pods that cost more than the allowance; `skipped_pods`: their reasons;
- `batch_requests`: what the batch requests, and the pods that nothing can place; `requests`: demands and options;
- `nominations`: nominated pods that count, and pods that wait for them;
- `node_arrays`: what nodes have left;
- `pod_classes`: the equivalence classes of pods;
- `gangs` (with `gang_domains`), `reservations`; `inter_pod` asks the rules between pods, which have folders in
  `solver.rules` as those about nodes;
- `costs`: preferences and scores.

`solver_cache` keeps results between solves, bounded by `solver.bounded_cache`. Pure data for greedy, model and
extraction.
"""
