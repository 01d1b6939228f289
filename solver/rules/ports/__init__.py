"""
Host ports (Pod spec.containers[].ports[].hostPort): one pod at a time has a port of a node, by protocol and address.

A port on 0.0.0.0 takes every address (NodePorts of kube-scheduler). Init containers with restartPolicy Always count;
`scheduler.kube.decode.pods` says which ports a pod has. The check is in `solver.verify.inter_pod`.
"""
