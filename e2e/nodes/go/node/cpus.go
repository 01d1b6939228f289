package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const systemDevices = "/sys/devices/system"

// claimCPUs lets the node's kubelet report another number of CPUs than the machine has. A kubelet counts folders, and the
// node has folders of its own there. They are empty: from files on sockets and cores it would learn numbers of CPUs, and
// write them into cgroups. Containers, whose sysfs is another mount, and the kernel know the machine's CPUs.
func claimCPUs(folder string, count int) error {
	if count == 0 {
		return nil
	}
	err := os.RemoveAll(folder)
	for index := range count {
		err = errors.Join(err, os.MkdirAll(filepath.Join(folder, "cpu", fmt.Sprintf("cpu%d", index)), 0o755))
	}
	// It would count the CPUs of NUMA nodes first.
	if err := errors.Join(err, os.MkdirAll(filepath.Join(folder, "node"), 0o755)); err != nil {
		return err
	}
	for _, name := range []string{"cpu", "node"} {
		place := filepath.Join(systemDevices, name)
		err := unix.Mount(filepath.Join(folder, name), place, "", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without NUMA has no nodes
			return fmt.Errorf("mounting %s: %w", place, err)
		}
	}
	return nil
}
