/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package etcd runs the embedded etcd: one member, in the process, for trying Proviso and for small installations
// with a single replica. More than one replica needs an external cluster.
//
// Invariants: every acknowledged write is on disk; the member listens on a unix socket in a directory of the
// process's user, and on no network; two processes never share a directory.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const (
	// maxSocketPath is what fits in a unix socket address on every system, less the
	// terminating zero.
	maxSocketPath = 103
	// startTimeout bounds how long a member may take to replay its log. It is generous: after a crash, a large log on
	// a slow disk takes long, and giving up would not help.
	startTimeout = 5 * time.Minute
	// backendQuota bounds the size of the store. It is etcd's own upper recommendation.
	backendQuota = 8 << 30
)

// Endpoint returns the URL at which the member of a data directory serves clients: a unix socket in the directory. It
// returns an error if the path of the socket is too long.
func Endpoint(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	socket := filepath.Join(absolute, "client.sock")
	if len(socket) > maxSocketPath {
		return "", fmt.Errorf("data directory %q: the path is too long for a unix socket in it, which can have %d bytes", absolute, maxSocketPath)
	}
	return "unix://" + socket, nil
}

// Member is a running etcd. It must be closed.
type Member struct {
	lock *fileutil.LockedFile
	etcd *embed.Etcd
	// logLevel is raised while the member starts and stops: etcd then warns of its own
	// defaults and reports the closing of its listeners as errors.
	logLevel zap.AtomicLevel
}

// Start starts the member whose data are in dir, and returns when the member serves. If the directory or the data do not
// exist, Start creates them. It returns an error if another process uses the directory, if the member is not ready within
// startTimeout, or if ctx ends.
func Start(ctx context.Context, dir string) (*Member, error) {
	endpoint, err := Endpoint(dir)
	if err != nil {
		return nil, err
	}
	lock, err := lockDirectory(dir)
	if err != nil {
		return nil, err
	}
	//guard:etcd-restoring
	if restoring := filepath.Join(dir, restoringFolder); fileutil.Exist(restoring) {
		return nil, errors.Join(fmt.Errorf("a restore into data directory %q has not ended: run it again", dir), lock.Close())
	}
	member := &Member{lock: lock, logLevel: zap.NewAtomicLevelAt(zap.ErrorLevel)}
	if err := member.start(ctx, dir, endpoint); err != nil {
		return nil, errors.Join(err, member.Close())
	}
	return member, nil
}

// lockDirectory creates a data directory, if it does not exist, and keeps other processes from using it.
func lockDirectory(dir string) (*fileutil.LockedFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("data directory %q is in use by another process", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return lock, nil
}

func (m *Member) start(ctx context.Context, dir, endpoint string) error {
	config, err := m.configOf(dir, endpoint)
	if err != nil {
		return err
	}
	m.etcd, err = embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-m.etcd.Server.ReadyNotify():
		m.logLevel.SetLevel(zap.WarnLevel)
		return nil
	case err := <-m.etcd.Err():
		return fmt.Errorf("starting etcd: %w", err)
	case <-timeout.C:
		return fmt.Errorf("etcd did not become ready within %s", startTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Member) configOf(dir, endpoint string) (*embed.Config, error) {
	client, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("client URL: %w", err)
	}
	logging := zap.NewProductionConfig()
	logging.Level = m.logLevel
	logger, err := logging.Build()
	if err != nil {
		return nil, fmt.Errorf("logger of etcd: %w", err)
	}

	config := embed.NewConfig()
	config.Name = memberName
	config.Dir = filepath.Join(dir, memberFolder)
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	// A member on its own has no peers to listen for, but must have an address for them.
	config.ListenPeerUrls, config.AdvertisePeerUrls = nil, []url.URL{*client}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.QuotaBackendBytes = backendQuota
	config.UnsafeNoFsync = false
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return config, nil
}

// Err returns a channel that delivers an error that stopped the member.
func (m *Member) Err() <-chan error { return m.etcd.Err() }

// Close stops the member. Everything that it acknowledged is on disk.
func (m *Member) Close() error {
	m.logLevel.SetLevel(zap.FatalLevel)
	if m.etcd != nil {
		m.etcd.Close()
	}
	return m.lock.Close()
}
