package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addressRequest is struct ifreq with an IPv4 address, flagsRequest the same with flags.
type addressRequest struct {
	name    [unix.IFNAMSIZ]byte
	address unix.RawSockaddrInet4
	_       [8]byte
}

type flagsRequest struct {
	name  [unix.IFNAMSIZ]byte
	flags uint16
	_     [22]byte
}

// addAddress brings the loopback interface up and gives it the node's address: a kubelet takes an address only if an
// interface has it and it is not 127.0.0.1. There is no other interface, so nothing leaves the node.
func addAddress(address string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	up := flagsRequest{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(up.name[:], "lo")
	alias := addressRequest{address: unix.RawSockaddrInet4{Family: unix.AF_INET}}
	copy(alias.name[:], "lo:1")
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return fmt.Errorf("%q is no IPv4 address", address)
	}
	copy(alias.address.Addr[:], ip)
	return errors.Join(ioctl(socket, unix.SIOCSIFFLAGS, unsafe.Pointer(&up)),
		ioctl(socket, unix.SIOCSIFADDR, unsafe.Pointer(&alias)))
}

func ioctl(socket int, request uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), uintptr(request), uintptr(argument)); errno != 0 {
		return fmt.Errorf("setting up the network: %w", errno)
	}
	return nil
}

// forward lets the node reach one server of this machine under the address that it has here, such as 127.0.0.1:6443.
// A socket stays in the network in which it was made: this process listens inside and connects outside.
func forward(pid int, server string) error {
	listener, err := listenInside(pid, server)
	if err != nil {
		return fmt.Errorf("listening on %s inside the node: %w", server, err)
	}
	go func() {
		for {
			inner, err := listener.Accept()
			if err != nil {
				return
			}
			go connect(inner, server)
		}
	}()
	return nil
}

func listenInside(pid int, address string) (net.Listener, error) {
	type result struct {
		net.Listener
		error
	}
	made := make(chan result)
	go func() {
		// The thread ends with this goroutine, and nothing else runs in the node's network.
		runtime.LockOSThread()
		if err := enterNamespaces(pid, "net"); err != nil {
			made <- result{nil, err}
			return
		}
		listener, err := net.Listen("tcp", address)
		made <- result{listener, err}
	}()
	got := <-made
	return got.Listener, got.error
}

func connect(inner net.Conn, server string) {
	defer func() { _ = inner.Close() }()
	outer, err := net.Dial("tcp", server)
	if err != nil {
		return // the API server is away: the node sees its connection end
	}
	defer func() { _ = outer.Close() }()
	over := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{inner, outer}, {outer, inner}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			over <- struct{}{}
		}()
	}
	<-over // an end of one direction ends both: nobody here half-closes
}
