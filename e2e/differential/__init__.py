"""
The differential test: which nodes can take a pod, by kube-scheduler and by Dovetail, on generated clusters.

`make differential` runs thousands of cases on a real control plane, the tests a seeded sample. kube-scheduler's whole
set of feasible nodes is read through an HTTP extender of its configuration: the extender is called after all filters of
kube-scheduler's own plugins, DRA's among them, with the nodes that passed them; it notes them and refuses them all, so
that nothing is ever bound or reserved and many pods share one cluster. Dovetail's set is `solver.feasible_nodes` on
what the API server lists, read by the shell's decoders; each of its plans is checked by `solver.verify`.

Each disagreement is a defect, or one of the closed list in `differences`, which docs/differences.md shows: an entry
says by which sign it is known, or what has to be taken out of a pod for both to agree, and the latter is tried.

Of a pod that neither side can place, Dovetail's message has to begin with kube-scheduler's, word for word.

In the order of use: `chance` and the generators (`machines`, `demands`, `neighbours`, `storage`, `devices`) make a
`groups.Group`; `stage` puts it into the API server; `extender` and `peer` ask kube-scheduler, `ours` asks Dovetail;
`comparison` puts both next to each other, `differences` explains, `report` prints.
"""
