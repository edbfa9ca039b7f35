/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// lateStore is a proxy of etcd that holds back what watches deliver. It takes from etcd without delay, so that etcd never waits.
type lateStore struct {
	url  string
	etcd *grpc.ClientConn

	mu  sync.Mutex
	lag time.Duration
}

// frame is a message that is not decoded.
type frame []byte

// frames copies messages.
type frames struct{}

var errFrame = errors.New("not a frame")

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, errFrame
	}
	return mem.BufferSlice{mem.SliceBuffer(*f)}, nil
}

func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return errFrame
	}
	*f = data.Materialize()
	return nil
}

func newLateStore(t *testing.T, c *cluster.Cluster) *lateStore {
	t.Helper()
	certFile, keyFile, err := c.ServingCertificate("store")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := credentials.NewServerTLSFromFile(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(c.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	client, err := tls.LoadX509KeyPair(c.EtcdCertificate())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	s := &lateStore{}
	s.etcd, err = grpc.NewClient(strings.TrimPrefix(c.EtcdURL(), "https://"), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frames{}), grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}, MinVersion: tls.VersionTLS12})))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "https://" + listener.Addr().String()
	server := grpc.NewServer(grpc.Creds(serving), grpc.ForceServerCodecV2(frames{}), grpc.UnknownServiceHandler(s.serve), grpc.MaxRecvMsgSize(math.MaxInt32))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		_ = s.etcd.Close()
	})
	return s
}

func (s *lateStore) setLag(lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = lag
}

func (s *lateStore) lagNow() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lag
}

// received is a message of etcd.
type received struct {
	message *frame
	at      time.Time
}

// serve passes one call on.
func (s *lateStore) serve(_ any, near grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(near)
	if !ok {
		return fmt.Errorf("%w: a call without a method", errFrame)
	}
	ctx, cancel := context.WithCancel(near.Context())
	defer cancel()
	if incoming, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, incoming.Copy())
	}
	far, err := s.etcd.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			message := &frame{}
			if err := near.RecvMsg(message); err != nil {
				if errors.Is(err, io.EOF) {
					_ = far.CloseSend()
				}
				return
			}
			if far.SendMsg(message) != nil {
				return
			}
		}
	}()
	isWatch := strings.HasPrefix(method, "/etcdserverpb.Watch/")
	size := 1
	if isWatch {
		size = 1 << 14 // more than is delivered within the lag
	}
	messages, failed := make(chan received, size), error(nil)
	go func() {
		defer close(messages)
		for {
			message := &frame{}
			if failed = far.RecvMsg(message); failed != nil {
				return
			}
			messages <- received{message, time.Now()}
		}
	}()
	for m := range messages {
		for isWatch && time.Since(m.at) < s.lagNow() && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		if err := near.SendMsg(m.message); err != nil {
			return err
		}
	}
	if errors.Is(failed, io.EOF) {
		return nil
	}
	return failed
}
