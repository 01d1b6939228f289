package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter runs a program inside a node and ends with its status. SIGUSR1 kills the program, as does the end of standard
// input; SIGTERM and SIGHUP reach it. SIGUSR2 stops it, as SIGSTOP would if that reached more than this process, until
// SIGCONT.
func enter(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: node enter PID PROGRAM [ARGUMENT ...]")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT)
	runtime.LockOSThread() // the namespaces are this thread's, and the child's death that of its parent's thread
	if err := enterNamespaces(pid, "net", "uts", "ipc", "pid", "mnt"); err != nil {
		return err
	}
	program := exec.Command(self, append([]string{"run"}, args[1:]...)...)
	program.Stdout, program.Stderr = os.Stdout, os.Stderr
	if err := program.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = program.Process.Kill()
	}()
	go func() {
		for each := range signals {
			switch each {
			case syscall.SIGUSR1:
				each = syscall.SIGKILL
			case syscall.SIGUSR2:
				each = syscall.SIGSTOP
			}
			_ = program.Process.Signal(each)
		}
	}()
	if err := program.Wait(); err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	return nil
}

// run becomes a program that dies with its parent. SysProcAttr.Pdeathsig is of no use for a process in a new PID
// namespace: it takes a parent that it cannot see, since it is outside, for a dead one.
func run(args []string) error {
	if err := dieWithParent(); err != nil {
		return err
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// dieWithParent lets the kernel kill this process when the thread that started it ends.
func dieWithParent() error {
	runtime.LockOSThread() // it is this thread that is killed first, and that becomes the next program
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)
}

// enterNamespaces moves the calling thread, which must be locked, into namespaces of a process.
func enterNamespaces(pid int, names ...string) error {
	// A thread that shares its working directory with others may not change its mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// All are opened first: with the mounts, /proc changes.
	var files []*os.File
	for _, name := range names {
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		files = append(files, file)
	}
	for _, file := range files {
		if err := unix.Setns(int(file.Fd()), 0); err != nil {
			return fmt.Errorf("entering %s: %w", file.Name(), err)
		}
	}
	return nil
}
