"""
The rules of placement that are about nodes, a folder for each.

| module of a rule | says | asked by |
|---|---|---|
| `values` | what a pod asks, and what that says of one node or object | explanation, answers, the scheduler |
| `nodes` | the nodes of a snapshot that can never do, each with a reason (`verdicts`) | `problem.prepare` |
| `batch` | what pods of a batch take from each other, as `limits` | `problem.prepare` |
| `queueing` | which cluster events may remove its reasons, and which fields of a pod it reads | the scheduling queue |

A rule has the modules that it needs. `values` and `queueing` import no arrays: the scheduler itself uses them.
Greedy, search and model keep verdicts and limits without knowing what they are about. Rules that act on devices
(`solver.problem.requests`, `solver.problem.devices`), on other pods (`solver.problem.inter_pod`) and on gangs
(`solver.problem.gangs`) share layouts, trackers and rows, and have packages of their own.

For each rule there is a check that shares nothing with it (`solver.verify`), decoding (`scheduler.kube.decode`), and a
line in docs/architecture.md.
"""
