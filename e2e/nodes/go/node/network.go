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

// addAddresses brings the loopback interface up and gives it the node's addresses: a kubelet takes an address only if an
// interface has it and it is not 127.0.0.1. No other interface leads out of the node, so nothing leaves it.
func addAddresses(addresses ...string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	up := flagsRequest{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(up.name[:], "lo")
	problem := ioctl(socket, unix.SIOCSIFFLAGS, unsafe.Pointer(&up))
	for index, address := range addresses {
		alias := addressRequest{address: unix.RawSockaddrInet4{Family: unix.AF_INET}}
		copy(alias.name[:], fmt.Sprintf("lo:%d", index+1))
		ip := net.ParseIP(address).To4()
		if ip == nil {
			return fmt.Errorf("%q is no IPv4 address", address)
		}
		copy(alias.address.Addr[:], ip)
		// The kernel takes the mask of the address's class, and with 10.0.0.0/8 the addresses of pods for the node's own.
		mask := alias
		mask.address.Addr = [4]byte{255, 255, 255, 255}
		problem = errors.Join(problem, ioctl(socket, unix.SIOCSIFADDR, unsafe.Pointer(&alias)),
			ioctl(socket, unix.SIOCSIFNETMASK, unsafe.Pointer(&mask)))
	}
	return problem
}

func ioctl(socket int, request uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), uintptr(request), uintptr(argument)); errno != 0 {
		return fmt.Errorf("setting up the network: %w", errno)
	}
	return nil
}

// forward lets the node reach one server of this machine, such as 127.0.0.1:6443, at an address inside: the same one, or
// that of a Service. A socket stays in the network in which it was made: this process listens inside and connects
// outside.
func forward(pid int, inside, server string) error {
	listener, err := listenInside(pid, inside)
	if err != nil {
		return fmt.Errorf("listening on %s inside the node: %w", inside, err)
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
