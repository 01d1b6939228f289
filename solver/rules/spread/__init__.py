"""
Topology spread (PodTopologySpread of kube-scheduler): at most maxSkew more matching pods than the emptiest domain.

Only constraints with DoNotSchedule rule nodes out; ScheduleAnyway is a cost (`solver.problem.costs`). The check is in
`solver.verify.inter_pod`.
"""
