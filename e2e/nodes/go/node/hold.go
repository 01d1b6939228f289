package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A node's folder holds what the node sees at other places: lib as /var/lib, log as /var/log, run as /run.
var places = map[string]string{"lib": "/var/lib", "log": "/var/log", "run": "/run"}

// pidFile tells others the process id of the node's first process, once the node can be entered.
const pidFile = "pid"

type options struct {
	folder, name, address, cgroup, server, service, own string
	cpus                                                int
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.StringVar(&o.folder, "folder", "", "`folder` of the node's state")
	flags.StringVar(&o.name, "name", "", "host `name`")
	flags.StringVar(&o.address, "address", "", "IPv4 `address` of the node; nobody outside can reach it")
	flags.StringVar(&o.cgroup, "cgroup", "", "`name` of the cgroup, as PREFIX-PID-… with the process that it is for")
	flags.StringVar(&o.server, "server", "", "`address` of this machine that the node reaches under the same one")
	flags.StringVar(&o.service, "service", "", "`address` of a Service, such as 10.0.0.1:443, that is that server, too")
	flags.StringVar(&o.own, "own", "", "`folder` of the machine, such as /mnt, of which the node has one of its own")
	flags.IntVar(&o.cpus, "cpus", 0, "`number` of CPUs that the kubelet reports (0: those of the machine)")
	return o, flags.Parse(args)
}

// addresses are those that the node has besides 127.0.0.1, servers those at which it reaches the server.
func (o options) addresses() []string {
	if host, _, err := net.SplitHostPort(o.service); err == nil {
		return []string{o.address, host}
	}
	return []string{o.address}
}

func (o options) servers() []string {
	if o.service == "" {
		return []string{o.server}
	}
	return []string{o.server, o.service}
}

// hold makes a node and keeps it. Told by SIGTERM, it keeps the folder; when its standard input ends, whoever needs the
// folder is gone.
func hold(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	isAlone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(isAlone)
	}()
	removeStale(o.cgroup)
	if err := makeCgroup(o.cgroup); err != nil {
		return err
	}
	defer removeCgroup(o.cgroup)
	process, err := startFirst(o, args)
	if err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- process.Wait() }()
	select {
	case err := <-gone:
		return fmt.Errorf("the node's first process ended: %w", err)
	case <-ends:
		err = end(process, gone)
	case <-isAlone:
		err = errors.Join(end(process, gone), os.RemoveAll(o.folder))
		_ = os.Remove(filepath.Dir(o.folder)) // the last of the nodes can: it is empty then
	}
	return err
}

func end(process *exec.Cmd, gone <-chan error) error {
	err := process.Process.Kill()
	<-gone
	return err
}

// startFirst starts the node's first process and returns when others may enter the node.
func startFirst(o options, args []string) (*exec.Cmd, error) {
	// A parent's death is that of the thread which started the child: this one never ends.
	runtime.LockOSThread()
	ready, written, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	process := exec.Command("/proc/self/exe", append([]string{"first"}, args...)...)
	process.Stderr = os.Stderr
	process.ExtraFiles = []*os.File{written}
	process.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	_ = written.Close()
	if said, err := io.ReadAll(ready); err != nil || string(said) != "ready" {
		return nil, errors.Join(err, fmt.Errorf("the node's first process ended: %w", process.Wait()))
	}
	for _, inside := range o.servers() {
		if err := forward(process.Process.Pid, inside, o.server); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(o.folder, pidFile)
	if err := os.WriteFile(path+".new", []byte(strconv.Itoa(process.Process.Pid)), 0o644); err != nil {
		return nil, err
	}
	return process, os.Rename(path+".new", path)
}

// first is the node's process 1: it makes the node's view of the machine, and reaps what others leave behind.
func first(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if err := dieWithParent(); err != nil {
		return err
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	if err := errors.Join(unix.Sethostname([]byte(o.name)), mountAll(o), addAddresses(o.addresses()...)); err != nil {
		return err
	}
	ready := os.NewFile(3, "ready")
	if _, err := ready.WriteString("ready"); err != nil {
		return err
	}
	_ = ready.Close()
	for range children {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
	return nil
}

func mountAll(o options) error {
	// What is mounted from here on stays here; what the machine mounts is not seen either.
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	all := maps.Clone(places)
	if o.own != "" {
		all["own"] = o.own
	}
	for name, place := range all {
		source := filepath.Join(o.folder, name)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
		// A kubelet wants the mounts of its volumes to propagate to containers.
		if err := errors.Join(unix.Mount(source, place, "", unix.MS_BIND, ""),
			unix.Mount("", place, "", unix.MS_SHARED|unix.MS_REC, "")); err != nil {
			return fmt.Errorf("mounting %s: %w", place, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return errors.Join(ownSettings(filepath.Join(o.folder, "sys")), newBoot(filepath.Join(o.folder, "boot_id")),
		claimCPUs(filepath.Join(o.folder, "cpus"), o.cpus))
}

// kernelSettings are those that a kubelet changes for the whole machine.
var kernelSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// ownSettings puts files in the place of kernel settings, so that the node's kubelet changes only its own view.
func ownSettings(folder string) error {
	for _, each := range kernelSettings {
		setting, own := filepath.Join("/proc/sys", each), filepath.Join(folder, each)
		value, err := os.ReadFile(setting)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(own), 0o755), os.WriteFile(own, value, 0o644),
			unix.Mount(own, setting, "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("replacing %s: %w", setting, err)
		}
	}
	return nil
}

// newBoot gives the node a boot ID of its own: by a change of it a kubelet knows that its node was rebooted.
func newBoot(path string) error {
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, id, 0o644); err != nil {
		return err
	}
	return unix.Mount(path, "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, "")
}
