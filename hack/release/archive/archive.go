/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package archive writes tar archives whose bytes follow from their files and one time.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// File is a file of an archive.
type File struct {
	Name    string
	Mode    int64
	Content []byte
}

// Write writes files in their order, all with the same time and owned by root.
func Write(w io.Writer, modified time.Time, files []File) error {
	archive := tar.NewWriter(w)
	for _, file := range files {
		header := &tar.Header{Name: file.Name, Mode: file.Mode, Size: int64(len(file.Content)), ModTime: modified, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.Content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// Read returns the files of an archive.
func Read(r io.Reader) (files []File, err error) {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir {
			return nil, fmt.Errorf("%s is no file", header.Name)
		}
		if slices.ContainsFunc(files, func(f File) bool { return f.Name == header.Name }) {
			return nil, fmt.Errorf("%s is there twice", header.Name) // which one counts differs between programs
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: header.Name, Mode: header.Mode, Content: content})
	}
}

// Compress returns a compressed archive of files.
func Compress(modified time.Time, files []File) ([]byte, error) {
	var content bytes.Buffer
	compressed := gzip.NewWriter(&content)
	if err := Write(compressed, modified, files); err != nil {
		return nil, err
	}
	err := compressed.Close()
	return content.Bytes(), err
}

// Uncompress returns the files of a compressed archive.
func Uncompress(content []byte) ([]File, error) {
	uncompressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return Read(uncompressed)
}
