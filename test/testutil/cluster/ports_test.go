/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// TestReservedPorts checks that a reserved port is free for a server that asks for it, again after it has stopped, and for nobody else:
// neither for a listener on any port nor for an outgoing connection.
func TestReservedPorts(t *testing.T) {
	ports, err := reservePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	port := ports[0]
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	const ipLocalPortRange = 51 // IP_LOCAL_PORT_RANGE of Linux 6.3
	// onlyThisPort lets the kernel choose among one port.
	onlyThisPort := func(_, _ string, conn syscall.RawConn) (err error) {
		if controlErr := conn.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipLocalPortRange, port<<16|port)
		}); controlErr != nil {
			return controlErr
		}
		return err
	}
	for range 2 {
		if conn, err := (&net.Dialer{Control: onlyThisPort}).Dial("tcp", elsewhere.Addr().String()); err == nil {
			t.Errorf("a connection got the reserved port: %v", conn.LocalAddr())
			_ = conn.Close()
		}
		if listener, err := (&net.ListenConfig{Control: onlyThisPort}).Listen(context.Background(), "tcp", "127.0.0.1:0"); err == nil {
			t.Errorf("a listener on any port got the reserved one: %v", listener.Addr())
			_ = listener.Close()
		}
		server, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal("a server cannot listen on the reserved port: ", err)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		_ = server.Close()
	}
}
