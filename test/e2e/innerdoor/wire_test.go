/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"net"
	"sync"
	"testing"
	"time"
)

// wire is a proxy of TCP connections. It can hold back what the target sends, and it can be cut.
type wire struct {
	address, target string

	mu    sync.Mutex
	lag   time.Duration
	isCut bool
	ends  []net.Conn
}

// newWire returns a wire to a target, host:port.
func newWire(t *testing.T, target string) *wire {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: listener.Addr().String(), target: target}
	t.Cleanup(func() {
		_ = listener.Close()
		w.cut(true)
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go w.connect(near)
		}
	}()
	return w
}

// setLag sets how long what the target sends is held back. It applies to what is held back already, too.
func (w *wire) setLag(lag time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lag = lag
}

// cut ends all connections and refuses new ones, or no longer does.
func (w *wire) cut(isCut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = isCut
	if isCut {
		for _, end := range w.ends {
			_ = end.Close()
		}
		w.ends = nil
	}
}

func (w *wire) connect(near net.Conn) {
	far, err := (&net.Dialer{}).Dial("tcp", w.target)
	if err != nil {
		_ = near.Close()
		return
	}
	w.mu.Lock()
	w.ends = append(w.ends, near, far)
	isCut := w.isCut
	w.mu.Unlock()
	if isCut {
		w.cut(true)
		return
	}
	type chunk struct {
		content []byte
		at      time.Time
	}
	chunks := make(chan chunk, 1<<16)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 1<<15)
			n, err := far.Read(buffer)
			if n > 0 {
				chunks <- chunk{buffer[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer func() { _ = near.Close() }()
		for c := range chunks {
			for time.Since(c.at) < w.lagNow() {
				time.Sleep(5 * time.Millisecond)
			}
			if _, err := near.Write(c.content); err != nil {
				_ = far.Close()
				continue // until the reader has noticed
			}
		}
	}()
	defer func() { _ = far.Close() }()
	buffer := make([]byte, 1<<15)
	for {
		n, err := near.Read(buffer)
		if n > 0 {
			if _, err := far.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) lagNow() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lag
}
