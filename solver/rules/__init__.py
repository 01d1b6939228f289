"""
The rules of placement about nodes and about other pods, a folder for each.

| module of a rule | says | asked by |
|---|---|---|
| `values` | what a pod asks, and what that says of one node or object | explanation, answers, the scheduler |
| `nodes` | the nodes of a snapshot that can never do, each with a reason (`verdicts`) | `solver.problem` |
| `batch` | what pods of a batch take from each other or require of each other (`forms`) | `solver.problem` |
| `queueing` | which cluster events may remove its reasons, and which fields of a pod it reads | the scheduling queue |

A rule has the modules that it needs. `values` and `queueing` import no arrays: the scheduler itself uses them.
Greedy, search and model keep verdicts and forms without knowing what they are about. `inter_pod` is no rule: it has
what rules between pods share.

These rules stay in `solver.problem`, because none of them can be read alone:

- claims and their constraints (`requests`), counters and capacities (`devices`) share the device layout, what is left
  of it, and the rows of its budgets;
- node resources (`node_arrays`): devices may take some of them (KEP-5517);
- gangs (`gangs`): the domains of a level may be values of a device attribute. Their form is `forms.gang_rules`;
- reservations of nodes (`reservations`) limit the classes of a whole problem.

For each rule there is a check that shares nothing with it (`solver.verify`), decoding (`scheduler.kube.decode`), and a
line in docs/architecture.md.
"""
