package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies gives the folders in which a cgroup is made: one for cgroup v2, one for each controller for v1.
func hierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}
	}
	var found []string
	entries, _ := os.ReadDir(cgroupRoot)
	for _, each := range entries {
		path := filepath.Join(cgroupRoot, each.Name())
		// Links such as cpuacct → cpu,cpuacct are the same folder again.
		if _, err := os.Stat(filepath.Join(path, "cgroup.procs")); err == nil && each.IsDir() {
			found = append(found, path)
		}
	}
	return found
}

// makeCgroup makes the node's cgroup, beneath which the kubelet makes those of pods.
func makeCgroup(name string) error {
	for _, root := range hierarchies() {
		folder := filepath.Join(root, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if root == cgroupRoot {
			if err := delegate(root, folder); err != nil {
				return err
			}
		}
		// In v1 a new cpuset is empty, and no process may enter it.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if value, err := os.ReadFile(filepath.Join(root, file)); err == nil && root != cgroupRoot {
				if err := os.WriteFile(filepath.Join(folder, file), value, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// delegate hands the controllers of v2 that a kubelet uses down to the node's cgroup and what will be beneath it. They
// stay on in the root, as systemd has them: that changes nothing for other processes.
func delegate(root, folder string) error {
	there, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, each := range []string{root, folder} {
		for _, controller := range []string{"cpuset", "cpu", "io", "memory", "hugetlb", "pids"} {
			if !slices.Contains(strings.Fields(string(there)), controller) {
				continue
			}
			path := filepath.Join(each, "cgroup.subtree_control")
			if err := os.WriteFile(path, []byte("+"+controller), 0o644); err != nil {
				return fmt.Errorf("handing down %s: %w", controller, err)
			}
		}
	}
	return nil
}

// removeCgroup removes a node's cgroup with all beneath it. Its processes have been killed; the kernel may need a moment.
func removeCgroup(name string) {
	for _, root := range hierarchies() {
		var folders []string
		_ = filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return nil
		})
		slices.Reverse(folders) // the deepest first
		for _, each := range folders {
			for range 100 {
				if err := syscall.Rmdir(each); !errors.Is(err, syscall.EBUSY) {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

// removeStale removes cgroups whose holders were killed: those with the same prefix whose process is gone.
func removeStale(name string) {
	prefix := name[:strings.LastIndex(name[:strings.LastIndex(name, "-")], "-")+1]
	for _, root := range hierarchies() {
		found, _ := filepath.Glob(filepath.Join(root, prefix+"*"))
		for _, each := range found {
			owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(each), prefix), "-")
			pid, err := strconv.Atoi(owner)
			if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				removeCgroup(filepath.Base(each))
			}
		}
	}
}
