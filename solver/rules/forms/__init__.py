"""
The forms of rules between pods: data over classes of pods and domains of nodes, which follow from no single pod.

Greedy, model, search and explanation keep a form without knowing which rule it comes from.

| module | a form says |
|---|---|
| `domains` | which nodes are one place: a node, a zone, the cluster |
| `limits` | an amount per domain, of which each pod takes some |
| `inter_pod` | which pods share no domain, need another pod in theirs, or spread evenly |
| `gang_rules` | which pods are placed together or not at all, in one domain of each level |
"""
