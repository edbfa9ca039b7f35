/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

const (
	// memberName is the name of the member, and of the folder of its data.
	memberName, memberFolder = "proviso", "member"
	// restoringFolder is where Restore prepares the data.
	restoringFolder = "restoring"
	// dialTimeout bounds how long Save waits for a member.
	dialTimeout = 10 * time.Second
	// revisionBump is how far the revisions of restored data are ahead of those of the snapshot, so that they are later than all that a client has seen.
	revisionBump = 1_000_000_000
)

// Save writes a snapshot of a running member, whose data are in dir, to w. It has a checksum, and all that was acknowledged before. The member goes on. Save
// returns an error if no member runs, or if the snapshot is incomplete.
func Save(ctx context.Context, dir string, w io.Writer) error {
	endpoint, err := Endpoint(dir)
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("client of etcd: %w", err)
	}
	defer client.Close()
	status, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := client.Status(status, endpoint); err != nil {
		return fmt.Errorf("no server with an embedded etcd runs with the data directory %q: %w", dir, err)
	}
	content, err := client.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer content.Close()
	if _, err := io.Copy(w, content); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// Restore replaces the data in dir, which no member may use, by a snapshot of Save. It renames the folder of the earlier data, whose new path it returns, or "" if
// there were none. It changes nothing if the snapshot is incomplete. If the process ends before Restore has returned, no member starts with dir until Restore is called again.
func Restore(dir string, content io.Reader) (earlier string, err error) {
	endpoint, err := Endpoint(dir)
	if err != nil {
		return "", err
	}
	lock, err := lockDirectory(dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	member, restoring := filepath.Join(dir, memberFolder), filepath.Join(dir, restoringFolder)
	if err := os.RemoveAll(restoring); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	if err := prepare(restoring, endpoint, content); err != nil {
		return "", errors.Join(err, os.RemoveAll(restoring))
	}
	if fileutil.Exist(member) {
		earlier = member + time.Now().UTC().Format("-20060102T150405.000000000")
		if err := os.Rename(member, earlier); err != nil {
			return "", fmt.Errorf("data directory: %w", err)
		}
	}
	if err := os.Rename(filepath.Join(restoring, memberFolder), member); err != nil {
		return earlier, fmt.Errorf("data directory: %w", err)
	}
	return earlier, errors.Join(syncDirectory(dir), os.RemoveAll(restoring))
}

// prepare writes the data of a member with a snapshot into the folder restoring.
func prepare(restoring, endpoint string, content io.Reader) error {
	if err := os.MkdirAll(restoring, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	file := filepath.Join(restoring, "snapshot.db")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, Name: memberName, OutputDataDir: filepath.Join(restoring, memberFolder),
		PeerURLs: []string{endpoint}, InitialCluster: memberName + "=" + endpoint, InitialClusterToken: "etcd-cluster",
		RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return fmt.Errorf("this is no complete snapshot: %w", err)
	}
	return nil
}

// syncDirectory has the names in a directory survive a crash.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
