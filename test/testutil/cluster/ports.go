/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"net"
	"sync"
)

// reservePorts returns n different ports of ReservePort.
func reservePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		port, err := ReservePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// ReservePort returns a free port of 127.0.0.1, and keeps it for servers that this process starts, until it ends.
//
// A server may start long after its port has been chosen, because the configuration of another server names the port. Without a
// reservation the kernel may give the port to any connection in the meantime. So ReservePort keeps a connection to the port open.
// The kernel then gives the port to no listener or connection that takes any free port. A server can still listen on it, if it asks
// for this port with SO_REUSEADDR, as Go's servers do. A test that takes a port without ReservePort may take one that another test has reserved.
func ReservePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	outgoing, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return 0, err
	}
	incoming, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	reservations.Lock()
	defer reservations.Unlock()
	reservations.connections = append(reservations.connections, outgoing, incoming)
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// reservations has the connections that reserve ports. A net.Conn that nothing refers to would be closed.
var reservations struct {
	sync.Mutex
	connections []net.Conn
}
