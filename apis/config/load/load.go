/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package load decodes files of config.proviso.dev. It is strict: an unknown or duplicate field and a second document are
// errors. It does not validate.
package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/proviso-authz/proviso/apis/config/install"
)

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}()

var errDocuments = errors.New("the file must contain exactly one YAML document")

// Decode decodes the content of a file into the internal type T, with defaults, such as *config.AuthorizationConfiguration.
// A file with an object of another kind is an error.
func Decode[T runtime.Object](content []byte) (T, error) {
	var none T
	// The codec would ignore further documents.
	documents, reader := 0, utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return none, err
		}
		if len(bytes.TrimSpace(document)) > 0 {
			documents++
		}
	}
	if documents != 1 {
		return none, errDocuments
	}
	object, err := runtime.Decode(codecs.UniversalDecoder(), content)
	if err != nil {
		return none, err
	}
	configuration, ok := object.(T)
	if !ok {
		return none, fmt.Errorf("not the kind of configuration that is wanted here: %T instead of %T", object, none)
	}
	return configuration, nil
}
