/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// codecs encode the refusals in reviews.
var codecs = newCodecs()

func newCodecs() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme)
}

// newRequest returns the request that the attributes describe, as their user would make it.
func newRequest(ctx context.Context, attributes authorizer.AttributesRecord) (*http.Request, error) {
	ctx = genericapirequest.WithUser(ctx, attributes.User)
	ctx = genericapirequest.WithRequestInfo(ctx, requestInfoOf(attributes))
	return http.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
}

func requestInfoOf(attributes authorizer.AttributesRecord) *genericapirequest.RequestInfo {
	return &genericapirequest.RequestInfo{
		IsResourceRequest: attributes.ResourceRequest,
		Path:              attributes.Path,
		Verb:              attributes.Verb,
		APIGroup:          attributes.APIGroup,
		APIVersion:        attributes.APIVersion,
		Namespace:         attributes.Namespace,
		Resource:          attributes.Resource,
		Subresource:       attributes.Subresource,
		Name:              attributes.Name,
		FieldSelector:     authorization.FieldSelectorText(attributes.FieldSelectorRequirements),
		LabelSelector:     labels.NewSelector().Add(attributes.LabelSelectorRequirements...).String(),
	}
}

// headersOf returns the headers that impersonate a user.
func headersOf(wanted *user.DefaultInfo) http.Header {
	headers := http.Header{authenticationv1.ImpersonateUserHeader: {wanted.Name}}
	if wanted.UID != "" {
		headers.Set(authenticationv1.ImpersonateUIDHeader, wanted.UID)
	}
	if len(wanted.Groups) > 0 {
		headers[authenticationv1.ImpersonateGroupHeader] = wanted.Groups
	}
	for key, values := range wanted.Extra {
		headers[authenticationv1.ImpersonateUserExtraHeaderPrefix+escape(key)] = values
	}
	return headers
}

// escape encodes a key of extra. The filter converts it to lower case and decodes
// percent-encoding, which gives the key again.
func escape(key string) string {
	var escaped strings.Builder
	for i := range len(key) {
		if c := key[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			escaped.WriteByte(c)
		} else {
			fmt.Fprintf(&escaped, "%%%02x", c)
		}
	}
	return escaped.String()
}
