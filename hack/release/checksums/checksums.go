/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package checksums writes and verifies the file with the hash of each file in a directory.
package checksums

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Name is the name of the file, which has the format of sha256sum.
const Name = "SHA256SUMS"

// File is the name and the hash of a file.
type File struct{ Name, SHA256 string }

// Files returns the files of a directory in the order of their names, except some.
func Files(dir string, except ...string) (files []File, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if slices.Contains(except, entry.Name()) {
			continue
		}
		if !entry.Type().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", entry.Name())
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: entry.Name(), SHA256: fmt.Sprintf("%x", sha256.Sum256(content))})
	}
	return files, nil
}

// Write writes the file into the directory.
func Write(dir string) error {
	text, err := list(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o644)
}

// Verify returns an error if the directory does not have exactly the files of the list, with their hashes.
func Verify(dir string) error {
	listed, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		return err
	}
	found, err := list(dir)
	if err != nil || found == string(listed) {
		return err
	}
	var differences strings.Builder
	for line := range strings.Lines(string(listed)) {
		if !strings.Contains(found, line) {
			differences.WriteString("\nlisted: " + strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(found) {
		if !strings.Contains(string(listed), line) {
			differences.WriteString("\nfound:  " + strings.TrimSpace(line))
		}
	}
	return fmt.Errorf("%s is not the list of the files%s", Name, &differences)
}

func list(dir string) (string, error) {
	files, err := Files(dir, Name)
	var text strings.Builder
	for _, file := range files {
		fmt.Fprintf(&text, "%s  %s\n", file.SHA256, file.Name)
	}
	return text.String(), err
}
