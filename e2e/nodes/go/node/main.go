// A node of a test: namespaces of its own for processes, mounts and network, so that kubelet, containerd and driver
// have the paths, ports and addresses of a real node, and so that everything of a node ends with one process.
//
//	node hold -folder F -cgroup NAME ...   makes the node and keeps it until SIGTERM or the end of its standard input
//	node enter PID PROGRAM ARGUMENT ...    runs a program inside
//
// Nothing is left behind. The kernel ends every process of a PID namespace with its first one and frees mounts and
// network with the last. The first one dies with the holder, the holder with whoever started it. Cgroups are all that
// outlives processes: the holder removes them, and the next one removes those of holders that were killed.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: node (hold | enter) arguments"))
	}
	command, ok := map[string]func([]string) error{"hold": hold, "first": first, "enter": enter, "run": run}[os.Args[1]]
	if !ok {
		fail(fmt.Errorf("%s is no command", os.Args[1]))
	}
	if err := command(os.Args[2:]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "node:", err)
	os.Exit(1)
}
