"""
What a large cluster costs a running scheduler, on a real control plane, and what two schedulers beside each other do.

    make measure ARGS=scale                            # idle and freed: 5,000 nodes × 8 devices, 20,000 running pods
    make measure ARGS="scale --nodes 500 --only idle"  # smaller, one of them
    make measure ARGS="scale --only two --nodes 500"   # one Dovetail, two on their own nodes, two on the same nodes
    make measure ARGS="scale --folder /tmp/cluster"    # keeps the cluster there: a further run does not fill it again

- `idle`: nothing happens but the kubelets' node status; CPU and memory of the scheduler with its worker.
- `freed`: 10,000 pods of 100 specs wait, and one device is freed a second; how soon a pod gets it, and the CPU for it.
- `two`: 2,000 pods of one GPU; pods bound a second, the CPU of schedulers and API server, and what the audit finds.

CPU is that of processes, so that other work on the machine changes it little. Seconds are those of a clock.
"""
