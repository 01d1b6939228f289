"""
Rules between pods over places: host ports, pod affinity and anti-affinity, topology spread.

In the order of use: `audience` (whom terms select, asked once per kind of pod), `residents` (what runs where),
`topology` (nodes by the value of a label), `refusals` (what running pods rule out, node by node), `ports`, `apart`,
`together` and `spreads` (what pods of a batch demand of each other, as data for greedy and model), `circle` (all of it,
for `prepare`). Batches without such rules, beside no running pods that have some, pay for one look at each pod.
"""
