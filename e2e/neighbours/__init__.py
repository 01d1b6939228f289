"""
The real neighbours of a scheduler: Kueue and Karpenter as processes beside a control plane, without containers.

They are built once from the Go modules that `go/go.mod` names (`programs`), and run against a `ControlPlane`:

    from e2e.controlplane.plane import ControlPlane
    from e2e.neighbours.kueue import Kueue

    with ControlPlane.start() as plane, Kueue.start(plane, classes={"gpu.nvidia.com": "gpus"}) as kueue:
        kueue.pid, kueue.log, kueue.stop()
        Kueue.start(plane, log_name="again")            # restarted: what it installed is still there

`make neighbours` runs the tests that need them (`tests/neighbours`). Nothing of this is part of `make test`: a first
build takes about 700 seconds of CPU time.
"""
