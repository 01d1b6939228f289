"""
A real Kubernetes control plane on this machine, without containers: etcd, API server, controller manager and kubectl.

They are linked from their Go modules into one binary (`go/`), built once into the user's cache folder by `build`.
Here live starting, stopping and credentials (`plane`), the stand-in for kubelets and DRA drivers (`kubelet`) and the
command line (`python -m e2e.controlplane`). Scenarios and measurements live beside this package and call it.

From a test, ask for the fixtures of `tests/support/controlplane.py` (one plane per test run, the stand-in running):

    @pytest.mark.controlplane
    def test_something(control_plane: ControlPlane, namespace: str) -> None:
        control_plane.kubectl("apply", "-n", namespace, "-f", "-", input=manifest)
        wait_until(lambda: ..., seconds=30)                    # from tests.support.controlplane

From a program (kube-scheduler is not started unless asked for; nothing is left behind at the end of the block):

    from e2e.controlplane.plane import ControlPlane

    with ControlPlane.start(feature_gates="on") as plane:      # or "defaults"; about 3 s
        plane.start_kubelet()                                  # pods that are bound go to Running
        plane.kubectl("get", "nodes")                          # -> str; KubectlError
        plane.request("GET", "/api/v1/nodes")                  # -> decoded JSON, as admin; RequestError has .status
        plane.kubeconfig                                       # Path; user admin, group system:masters
        plane.kubeconfig_for_service_account("ns", "name")     # Path; RBAC is enforced
        plane.access_for_service_account("ns", "name")         # .request(...) as that account
        peer = plane.start_kube_scheduler(config=None)         # the peer, when a comparison wants it
        peer.pid, peer.log, peer.access, peer.stop()           # access.request("GET", "/metrics")
        plane.components["kube-apiserver"].pid                 # the others, by name

There are no nodes at first: create a Node, then patch its status (capacity, allocatable, condition Ready), or start
real ones with kubelets, containers and a driver (`e2e.nodes`). What the stand-in does with pods and claims, and the
annotations that it obeys, is told in `kubelet`.
"""
