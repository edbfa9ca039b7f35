/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package etcd_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/etcd"
)

// start starts a member that the test stops.
func start(t *testing.T, dir string) (stop func()) {
	t.Helper()
	member, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			if err := member.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// put writes a key, and get returns its value and the revision of the store.
func put(t *testing.T, dir, value string) {
	t.Helper()
	if _, err := clientOf(t, dir).Put(t.Context(), "key", value); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, dir string) (value string, revision int64) {
	t.Helper()
	got, err := clientOf(t, dir).Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		value = string(kv.Value)
	}
	return value, got.Header.Revision
}

// TestSnapshot saves a member that runs, and restores it into the same directory and into another one.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	stop := start(t, dir)
	put(t, dir, "saved")
	var saved bytes.Buffer
	if err := etcd.Save(t.Context(), dir, &saved); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "later")
	_, before := get(t, dir)
	if _, err := etcd.Restore(dir, bytes.NewReader(saved.Bytes())); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("beside a member that runs: got %v", err)
	}
	stop()

	earlier, err := etcd.Restore(dir, bytes.NewReader(saved.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(earlier); err != nil || len(entries) == 0 {
		t.Errorf("the earlier data: got %v, %v", entries, err)
	}
	other := shortDir(t)
	if earlier, err := etcd.Restore(other, bytes.NewReader(saved.Bytes())); err != nil || earlier != "" {
		t.Fatalf("into a new directory: got %q, %v", earlier, err)
	}
	for _, dir := range []string{dir, other} {
		stop := start(t, dir)
		value, revision := get(t, dir)
		if value != "saved" || revision <= before {
			t.Errorf("%s: got %q at revision %d, want the saved value, and a revision after %d", dir, value, revision, before)
		}
		put(t, dir, "after")
		stop()
		start(t, dir)
		if value, _ := get(t, dir); value != "after" {
			t.Errorf("%s: got %q after a restart, want the value that was written after the restore", dir, value)
		}
	}
}

// TestSaveFails: without a member there is no snapshot.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	var saved bytes.Buffer
	if err := etcd.Save(t.Context(), dir, &saved); err == nil || !strings.Contains(err.Error(), "no server with an embedded etcd runs") || saved.Len() > 0 {
		t.Errorf("got %v, and %d bytes", err, saved.Len())
	}
	start(t, dir)
	full := errors.New("no space left on device")
	if err := etcd.Save(t.Context(), dir, failing{full}); !errors.Is(err, full) {
		t.Errorf("a full disk: got %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }
func (f failing) Read([]byte) (int, error)  { return 0, f.error }

// TestRestoreChangesNothing: what is no complete snapshot leaves the data as they are.
func TestRestoreChangesNothing(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	stop := start(t, dir)
	put(t, dir, "kept")
	var buffer bytes.Buffer
	if err := etcd.Save(t.Context(), dir, &buffer); err != nil {
		t.Fatal(err)
	}
	stop()
	saved := buffer.Bytes()
	changed := bytes.Clone(saved)
	changed[len(changed)/2] ^= 1
	for name, content := range map[string]io.Reader{
		"nothing":               strings.NewReader(""),
		"a text":                strings.NewReader("apiVersion: v1"),
		"half of it":            bytes.NewReader(saved[:len(saved)/2]),
		"without its last byte": bytes.NewReader(saved[:len(saved)-1]),
		"without its checksum":  bytes.NewReader(saved[:len(saved)-32]),
		"another bit":           bytes.NewReader(changed),
		"twice":                 io.MultiReader(bytes.NewReader(saved), bytes.NewReader(saved)),
		"a read that fails":     io.MultiReader(bytes.NewReader(saved[:4096]), failing{io.ErrUnexpectedEOF}),
	} {
		if _, err := etcd.Restore(dir, content); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	start(t, dir)
	if value, _ := get(t, dir); value != "kept" {
		t.Errorf("got %q, want the value that was there", value)
	}
}

// TestRestoreThatWasKilled: no member starts with an empty store because a restore has not ended.
func TestRestoreThatWasKilled(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	stop := start(t, dir)
	put(t, dir, "saved")
	var saved bytes.Buffer
	if err := etcd.Save(t.Context(), dir, &saved); err != nil {
		t.Fatal(err)
	}
	stop()
	// Between its two renames, Restore has moved the earlier data away.
	for _, err := range []error{os.Mkdir(filepath.Join(dir, "restoring"), 0o700), os.Rename(filepath.Join(dir, "member"), filepath.Join(dir, "member-earlier"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if member, err := etcd.Start(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "has not ended: run it again") {
		t.Errorf("got %v, %v", member, err)
	}
	if _, err := etcd.Restore(dir, &saved); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
	if value, _ := get(t, dir); value != "saved" {
		t.Errorf("got %q", value)
	}
}
