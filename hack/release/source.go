/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

// source is the commit from which an image is built.
type source struct {
	root, Tag, Commit, LinkerFlags string
	// Created is the time of the commit.
	Created time.Time
	// Repository is the name of the image without a tag.
	Repository string
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
