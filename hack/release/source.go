/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/mod/semver"

	"github.com/proviso-authz/proviso/hack/release/provenance"
)

// source is the commit from which a release is built.
type source struct {
	provenance.Build
	root string
}

// git returns what a command of git prints.
func (s *source) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = s.root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// read reads the commit and its time.
func (s *source) read(ctx context.Context) error {
	if _, err := name.NewRepository(s.Repository, name.StrictValidation); err != nil {
		return err
	}
	out, err := s.git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(out, " ")
	created, err := strconv.ParseInt(seconds, 10, 64)
	s.Commit, s.Created = commit, time.Unix(created, 0).UTC()
	return err
}

var errTag = errors.New("the tag must be a semantic version like v0.1.0")

// check returns the notes of the release, and an error if the tree is not the one of the tag.
func (s *source) check(ctx context.Context) (notes string, err error) {
	if semver.Canonical(s.Tag) != s.Tag || s.Tag == "" {
		return "", fmt.Errorf("%q: %w", s.Tag, errTag)
	}
	if err := s.read(ctx); err != nil {
		return "", err
	}
	if changes, err := s.git(ctx, "status", "--porcelain"); err != nil {
		return "", err
	} else if changes != "" {
		return "", fmt.Errorf("a release is built from a commit, and these files have changes:\n%s", changes)
	}
	if tag, err := s.git(ctx, "for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags/"+s.Tag); err != nil {
		return "", err
	} else if tag != "" && !strings.Contains(tag, s.Commit) {
		return "", fmt.Errorf("the tag %s is another commit than %s, which is checked out", s.Tag, s.Commit)
	}
	changelog, err := os.ReadFile(filepath.Join(s.root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	return section(string(changelog), s.Tag)
}

// section returns the section of a tag in CHANGELOG.md.
func section(changelog, tag string) (string, error) {
	heading := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(tag) + `( .*)?\n`).FindStringIndex(changelog)
	if heading == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section ## %s", tag)
	}
	text, _, _ := strings.Cut(changelog[heading[1]:], "\n## ")
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("the section ## %s of CHANGELOG.md is empty", tag)
	}
	return changelog[heading[0]:heading[1]] + "\n" + text + "\n", nil
}
