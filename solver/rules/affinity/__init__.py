"""
Required pod affinity and anti-affinity (InterPodAffinity of kube-scheduler): which pods share a topology domain.

A term of a running pod's anti-affinity holds against new pods as well. Preferred terms are costs
(`solver.problem.costs`). The check is in `solver.verify.inter_pod`.
"""
