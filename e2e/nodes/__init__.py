"""
Real nodes for a control plane on this machine: kubelet, containerd, runc and a DRA driver, without a container engine.

Each node is a set of namespaces (`go/node`). Kubelet, containerd and driver have the paths, ports and addresses there
that they have on any node; what they do to mounts, network and kernel settings, the machine does not see. Every process
of a node ends with the first one, so nothing is left behind, however a test ends.

    from e2e.nodes.cluster import Nodes, unusable
    from e2e.nodes.invariants import audit

    with ControlPlane.start() as plane, Nodes.start(plane, 2) as nodes:      # about 5 s; unusable() says why not
        node = nodes["node-0"]
        node.publish([{"name": "gpu-0"}, {"name": "gpu-1"}])    # devices as in a ResourceSlice
        node.containers()                                       # what each container printed: environment, devices
        node.calls()                                            # what the kubelet asked the driver for
        node.steer("prepare.fail-once", "no power")             # the files are listed in go/driver/main.go
        node.kill_driver(); node.start_driver()
        with node.stopped_driver(): ...                         # it hangs: no answer, nothing is published
        node.kill_kubelet(); node.restart_kubelet(); node.reboot()
        audit(plane, nodes)                                     # -> []: driver, claims and containers agree

`Nodes.start_each` makes nodes that differ (`node.NodeSpec`): labels, taints, several drivers with devices, a disk for
local volumes, the number of CPUs that the kubelet reports, a network for pods. Without that, pods have an address, and
no packet is sent to them; with it, probes reach them and they reach the API server. `Node.load` gives a node another
image, such as Dovetail's own (`e2e.image.cached`). `make nodes` makes a whole fleet so (`e2e/run/real.py`), `make gpu`
a node with the NVIDIA cards of this machine (`gpu.py`, `nvml.py`).

| folder | what |
|---|---|
| `go/driver` | the DRA driver, as the example of one: devices from a file, calls into a log |
| `go/container` | the program of the only image, of pods and of their sandboxes |
| `go/node` | makes a node, and runs programs inside |
| `go/podresources` | asks a kubelet for the devices of its containers |
| `kubelet` | the kubelet, a `.mod` file for each version of Kubernetes |
| `containerd` | containerd, its shim and ctr |
| `cni` | CNI plugins, for nodes whose pods have a network |

Everything comes from the Go module proxy and is built once into the user's cache folder (`programs`), but for runc,
which is the machine's or Debian's.
"""
