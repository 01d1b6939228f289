"""
`make bench`: how good the solver's plans are, how much of that is proven, and what it takes, without any cluster.

Every workload is a cluster with a batch of pods that all wait, made from a seed; nodes and slices are manifests of
`e2e.fleet`, read as the scheduler reads them. Each is solved several times by `solver.solve` alone, and one table
shows, level by level, what first fit in queue order, the best greedy plan and the final plan are worth, the bound, and
the seconds. The run fails (exit status 1) where a level is below first fit or greedy, where runs do not give the same
plan, or where the independent check finds a broken rule.

    make bench                                        the ordinary sizes, one seed, three runs each
    make bench ARGS="--only W3t --seeds 3"            one workload, three seeds
    make bench ARGS="--all --priorities sum"          the largest too; one level that sums priorities
    make bench ARGS="--only W7t --json out.json"      keep what was measured; --show out.json prints it again
    make bench ARGS="--recorded"                      ten recorded cases instead (`recorded`)
    make bench ARGS="--without dive"                  leave a stage of the search out (`solver.domain.SearchStage`)
    make bench ARGS="--ablation --recorded"           what each stage earns, one after the other (`docs/search.md`)

| | nodes × pods | |
|---|---|---|
| W1 | 500 × 1000 | one GPU a pod, equal nodes |
| W2, W2t | 500 × 1000, 120 × 500 | four GPU models, selectors and firstAvailable; tight: too few of them |
| W3, W3t | 500 × 1100, 250 × 700 | pairs of GPU and network card behind one PCIe root, four GPUs of one NUMA node |
| W4 | 60 × 1500 | MIG profiles of GPUs that share counters |
| W5 | 50 × 1500 | shares of 5 to 40Gi of GPUs with 80Gi |
| W6 | 512 × 266 | gangs of 16 × 8 GPUs inside one NVLink domain, beside small work, cluster 80 % full |
| W7, W7t | 5000 × 2000 | all of it on a large cluster in use; tight: hardly anything is free |
| W8 | 60 × 120 | first fit strands GPUs: small pods came first |
| W8h | 60 × 240 | everything fits exactly once, in GPUs and in cpu |
| W9 | 128 × 124 | four gangs of 16 × 8 that need whole NVLink domains, which 60 pods before them fill |
| W9t | 768 × 692 | 48 gangs of 4 × 8 in domains of eight nodes in use, after 500 pods |
| W10 | 1000 × 400 | every tenth pod asks for what no node has, in a way that sums over devices do not see |
| W11 | 300 × 400 | pods without devices: only scores differ |
| W12 | 150 × 200 | five, three and two of eight GPUs: what is left over counts |

Work is limited by the solver's own measure (`--work`), which is the same on every machine; CPU time is only shown.
`clusters` makes what is there, `asks` what is wanted, `workloads` puts both together, `recorded` reads recorded
cases, `measure` solves, `ablation` searches without one stage at a time, `table` shows, `memory` weighs objects.
"""
