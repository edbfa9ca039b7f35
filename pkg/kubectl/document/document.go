/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package document reads the objects in files for commands: YAML documents and JSON, from paths, directories, patterns and
// standard input. It writes manifests, too.
//
// Invariants:
//
//   - Reading is strict: a duplicate key, a hidden document, or text that is not UTF-8 is an error.
//   - No network is used.
package document

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/resource"
	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// maxFileBytes bounds one file. A policy has at most some 100 KiB, and a list of a thousand of them less than this.
const maxFileBytes = 64 << 20

// Stdin is the name of standard input in flags.
const Stdin = "-"

const stdinName = "standard input"

// Document is one object of a file.
type Document struct {
	Source Source
	// JSON is the object. Its keys are unique.
	JSON []byte
	// Text is the document as it is in the file, with its comments. It is empty for an item of a list, and where several objects follow each other without a
	// separator.
	Text string
}

// TypeMeta returns the apiVersion and the kind of the object, or an error if it has none.
func (d Document) TypeMeta() (typeMeta metav1.TypeMeta, err error) {
	if kjson.UnmarshalCaseSensitivePreserveInts(d.JSON, &typeMeta) != nil || typeMeta.Kind == "" || typeMeta.APIVersion == "" {
		err = errNoObject // the other error quotes the document, which may have secrets
	}
	return typeMeta, err
}

// Decode reads the object strictly.
func (d Document) Decode(into any) error {
	strict, err := kjson.UnmarshalStrict(d.JSON, into)
	return errors.Join(append(strict, err)...)
}

// Source says where an object is.
type Source struct {
	// Path is the path of the file.
	Path string
	// Line is the line of the file with which the text of the document begins, from 1. It is 0 if it is not known.
	Line int
	// document and item count from 1. item is 0 outside a list.
	document, item int
}

// Named returns the source of an object that comes from no file.
func Named(name string) Source { return Source{Path: name, document: 1} }

// String returns the path, the number of the document and, in a list, the number of the item.
func (s Source) String() string {
	text := fmt.Sprintf("%s, document %d", s.Path, s.document)
	if s.item > 0 {
		text += fmt.Sprintf(", item %d", s.item)
	}
	return text
}

// Error is an error about one document.
type Error struct {
	Source Source
	Err    error
}

// Error returns the source and the error.
func (e *Error) Error() string { return fmt.Sprintf("%v: %v", e.Source, e.Err) }

// Unwrap returns the error without the source.
func (e *Error) Unwrap() error { return e.Err }

// The errors of documents.
var (
	errURL       = errors.New("URLs are not read: download the file first")
	errTwice     = errors.New("standard input can be read once only")
	errLong      = fmt.Errorf("has more than %d bytes", maxFileBytes)
	errEncoding  = errors.New("must be UTF-8")
	errNoObject  = errors.New("is not an object with apiVersion and kind")
	errNoName    = errors.New("metadata.name: Required value")
	errDocuments = errors.New("has another YAML document within: separate documents by a line with --- alone")
)

// Read reads the files with these names, in the order of the names and, within a directory, of its files. A name is a path, a
// pattern or Stdin. Read returns the documents that could be read, and all errors.
func Read(in io.Reader, filenames []string, recursive bool) (documents []Document, errs []error) {
	hasStdin := false
	add := func(found []Document, err error) {
		documents = append(documents, found...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range filenames {
		switch {
		case name == Stdin && hasStdin:
			add(nil, errTwice)
		case name == Stdin:
			hasStdin = true
			add(readFile(stdinName, in))
		case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
			add(nil, fmt.Errorf("%s: %w", name, errURL))
		default:
			paths, err := expand(name, recursive)
			add(nil, err)
			for _, path := range paths {
				add(openFile(path))
			}
		}
	}
	return documents, errs
}

// expand returns the files that a path or, if there is no such file, a pattern stands for, as kubectl does.
func expand(name string, recursive bool) ([]string, error) {
	names := []string{name}
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		matches, err := filepath.Glob(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(matches) == 0 {
			return nil, fmt.Errorf("the path %q does not exist", name)
		}
		names = matches
	}
	var paths []string
	for _, name := range names {
		visitors, err := resource.ExpandPathsToFileVisitors(nil, name, recursive, resource.FileExtensions, nil)
		if err != nil {
			return nil, err
		}
		if len(visitors) == 0 {
			return nil, fmt.Errorf("%s: has no file with the extension %s", name, strings.Join(resource.FileExtensions, ", "))
		}
		for _, visitor := range visitors {
			paths = append(paths, visitor.(*resource.FileVisitor).Path)
		}
	}
	return paths, nil
}

func openFile(path string) ([]Document, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readFile(path, file)
}

// ReadText reads the documents of a text. Sources and errors have the name that is given instead of a path.
func ReadText(name, text string) ([]Document, error) { return readFile(name, strings.NewReader(text)) }

// readFile reads all documents of a file. The error has the path.
func readFile(path string, in io.Reader) ([]Document, error) {
	content, err := io.ReadAll(io.LimitReader(in, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(content) > maxFileBytes:
		return nil, fmt.Errorf("%s: %w", path, errLong)
	//guard:render-bytes-not-utf-8
	case !utf8.Valid(content):
		return nil, fmt.Errorf("%s: %w", path, errEncoding)
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if !bytes.HasSuffix(content, []byte("\n")) {
		content = append(content, '\n') // the reader of documents ends each line
	}
	var documents []Document
	at := Source{Path: path}
	end := 0 // of the document before
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if begin := bytes.Index(content[end:], raw); begin >= 0 {
			at.Line = 1 + bytes.Count(content[:end+begin], []byte("\n"))
			end += begin + len(raw)
		} else {
			at.Line = 0 // the reader has changed the line breaks
		}
		objects, err := toJSON(raw)
		if err != nil {
			at.document++
			return nil, &Error{Source: at, Err: err}
		}
		for _, object := range objects {
			at.document++
			d := Document{Source: at, JSON: object}
			if len(objects) == 1 {
				d.Text = string(raw)
			}
			documents = append(documents, d)
		}
	}
}

// toJSON returns the objects of what is between two separators: JSON objects, one after the other, or one YAML document, which may be
// empty.
func toJSON(raw []byte) ([][]byte, error) {
	if objects, ok := jsonObjects(raw); ok {
		return objects, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	var ignored any
	switch err := decoder.Decode(&ignored); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	//guard:render-documents-within-document
	if err := decoder.Decode(&ignored); !errors.Is(err, io.EOF) {
		return nil, errDocuments // kubectl would ignore it
	}
	//guard:render-keys-twice
	object, err := sigsyaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, err
	}
	if string(object) == "null" {
		return nil, nil
	}
	return [][]byte{object}, nil
}

// jsonObjects returns the JSON objects in a text, and false if it has something else.
func jsonObjects(raw []byte) (objects [][]byte, ok bool) {
	if !utilyaml.IsJSONBuffer(raw) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	for {
		var object json.RawMessage
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects, true
		case err != nil:
			return nil, false
		}
		objects = append(objects, slices.Clone(object))
	}
}

// errNested is the error of a list in a list.
var errNested = errors.New("a list in a list is not read")

// Errors are the errors of documents.
type Errors struct {
	Errs []error

	// sources has the objects that IsNew has accepted.
	sources map[string]Source
}

// IsNew reports whether an object has a name, and no other object has its title. Otherwise it adds an error; what
// is the word for the object in it.
func (e *Errors) IsNew(at Source, title, what, name string) bool {
	if e.sources == nil {
		e.sources = map[string]Source{}
	}
	other, twice := e.sources[title]
	switch {
	case name == "":
		e.Fail(at, title, errNoName)
	case twice:
		e.Fail(at, title, fmt.Errorf("the same %s is in %v, too", what, other))
	default:
		e.sources[title] = at
		return true
	}
	return false
}

// Fail adds an error about an object. The name may be empty.
func (e *Errors) Fail(at Source, name string, err error) {
	if name != "" {
		err = fmt.Errorf("%s: %w", name, err)
	}
	e.Errs = append(e.Errs, &Error{Source: at, Err: err})
}

// Each calls load with each object of documents. In place of a list of objects of any kind, as kubectl get prints it, it calls load with the items.
func (e *Errors) Each(documents []Document, load func(Document, metav1.TypeMeta)) {
	for _, d := range documents {
		typeMeta, err := d.TypeMeta()
		if err == nil && typeMeta.APIVersion == "v1" && typeMeta.Kind == "List" {
			var list []Document
			if list, err = items(d); err == nil {
				e.Each(list, load)
				continue
			}
		}
		if err != nil {
			e.Fail(d.Source, "", err)
			continue
		}
		load(d, typeMeta)
	}
}

// items returns the items of a list.
func items(d Document) (items []Document, err error) {
	if d.Source.item > 0 {
		return nil, errNested
	}
	list := &metav1.List{}
	strict, err := kjson.UnmarshalStrict(d.JSON, list)
	//guard:render-unknown-fields-lists
	if err == nil && len(strict) > 0 {
		err = runtime.NewStrictDecodingError(strict)
	}
	for i := range list.Items {
		items = append(items, Document{Source: d.Source.At(i), JSON: list.Items[i].Raw})
	}
	return items, err
}

// EachItem calls add with each item of a list of one kind, and with another object itself.
func (e *Errors) EachItem(at Source, object runtime.Object, add func(Source, runtime.Object)) {
	if !meta.IsListType(object) {
		add(at, object)
		return
	}
	list, err := meta.ExtractList(object)
	if err != nil {
		e.Fail(at, "", err)
	}
	for i, item := range list {
		add(at.At(i), item)
	}
}

// At returns the source of an item of a list. Items count from 0 here, and from 1 in messages.
func (s Source) At(item int) Source {
	s.item = item + 1
	return s
}
