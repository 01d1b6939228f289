// Each version of Kubernetes has a file of its own, such as 1.37.mod: go build -modfile=1.37.mod. Go finds the module's
// folder by this one and reads nothing else of it.
module dovetail/e2e/nodes/kubelet

go 1.26.0
