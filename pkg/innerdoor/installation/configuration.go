/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package installation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiservervalidation "k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/client-go/util/cert"

	"github.com/proviso-authz/proviso/apis/config"
	"github.com/proviso-authz/proviso/apis/config/load"
	"github.com/proviso-authz/proviso/apis/config/validation"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

// maxConfigurationBytes bounds the files that Load reads. A list of all resources that can be listed has some 30 kB.
const maxConfigurationBytes = 1 << 20

// Configuration is a valid configuration of the inner door.
type Configuration struct {
	config   config.InnerDoorConfiguration
	manifest manifest.Config
	digest   string
}

// Load reads and validates a configuration. The error has all mistakes of the file.
func Load(file string) (*Configuration, error) {
	content, err := readFile(file)
	if err != nil {
		return nil, err
	}
	decoded, err := load.Decode[*config.InnerDoorConfiguration](content)
	if err != nil {
		return nil, err
	}
	errs := validation.ValidateInnerDoorConfiguration(decoded)
	certificates := field.NewPath("caBundle")
	if decoded.CAFile != "" && len(decoded.CABundle) == 0 {
		certificates = field.NewPath("caFile")
		path := decoded.CAFile
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		if decoded.CABundle, err = readFile(path); err != nil {
			errs = append(errs, field.Invalid(certificates, decoded.CAFile, err.Error()))
		}
	}
	if len(decoded.CABundle) > 0 {
		//guard:installation-certificates-none
		if _, err := cert.ParseCertsPEM(decoded.CABundle); err != nil {
			errs = append(errs, field.Invalid(certificates, "", "must be certificates in PEM: "+err.Error()))
		}
	}
	c := &Configuration{config: *decoded, manifest: manifestOf(decoded)}
	errs = append(errs, c.manifest.Validate().Filter(isAbout(certificates, len(errs) > 0))...)
	//guard:installation-authorizers-kube-apiserver-refuses
	errs = append(errs, c.validateAuthorizers()...)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	c.digest, err = manifest.Digest(c.manifest)
	return c, err
}

var errTooLong = fmt.Errorf("the file is longer than %d bytes", maxConfigurationBytes)

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxConfigurationBytes {
		return nil, errTooLong
	}
	return os.ReadFile(path)
}

func manifestOf(c *config.InnerDoorConfiguration) manifest.Config {
	m := manifest.Config{
		URL: c.URL, CABundle: c.CABundle, Namespace: c.Namespace, AsksOthers: c.AskOtherAuthorizers, OwnerReferences: c.OwnerReferencesPermissionEnforcement,
		Identities: manifest.Identities{Users: c.ExcludedIdentities.Users, Groups: c.ExcludedIdentities.Groups},
	}
	for _, r := range c.Resources {
		m.Resources = append(m.Resources, innerdoor.Resource{Group: r.Group, Resource: r.Resource, Subresource: r.Subresource})
	}
	return m
}

// Digest returns the digest of the manifest, which is in the URL that kube-apiserver calls.
func (c *Configuration) Digest() string { return c.digest }

// Manifest returns the configuration of the manifest.
func (c *Configuration) Manifest() manifest.Config { return c.manifest }

// frontDoorName is the name of the front door among the authorizers of kube-apiserver.
const frontDoorName = "proviso.front-door"

// frontDoorTimeout is longer than the front door takes to decide.
const frontDoorTimeout = 3 * time.Second

// authorization returns the AuthorizationConfiguration of kube-apiserver.
func (c *Configuration) authorization() *apiserverv1.AuthorizationConfiguration {
	kubeconfig := c.path(frontDoorKubeconfigFile)
	//guard:installation-cached-answers
	webhook := &apiserverv1.WebhookConfiguration{
		// An answer belongs to one request. A cached answer would outlive the policy by minutes.
		CacheAuthorizedRequests: new(bool), CacheUnauthorizedRequests: new(bool),
		Timeout: metav1.Duration{Duration: frontDoorTimeout}, FailurePolicy: string(c.config.KubeAPIServer.FrontDoorFailurePolicy),
		SubjectAccessReviewVersion: "v1", MatchConditionSubjectAccessReviewVersion: "v1",
		ConnectionInfo: apiserverv1.WebhookConnectionInfo{Type: apiserverv1.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &kubeconfig},
	}
	for _, condition := range c.manifest.FrontDoorConditions() {
		webhook.MatchConditions = append(webhook.MatchConditions, apiserverv1.WebhookMatchCondition{Expression: condition})
	}
	a := &apiserverv1.AuthorizationConfiguration{
		TypeMeta:    metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "AuthorizationConfiguration"},
		Authorizers: append([]apiserverv1.AuthorizerConfiguration(nil), c.config.KubeAPIServer.AuthorizersBefore...),
	}
	a.Authorizers = append(a.Authorizers, apiserverv1.AuthorizerConfiguration{Type: string(apiserver.TypeWebhook), Name: frontDoorName, Webhook: webhook})
	a.Authorizers = append(a.Authorizers, c.config.KubeAPIServer.AuthorizersAfter...)
	return a
}

var upstream = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	return scheme
}()

// validateAuthorizers validates the AuthorizationConfiguration by the rules of kube-apiserver.
func (c *Configuration) validateAuthorizers() field.ErrorList {
	path := field.NewPath("kubeAPIServer")
	defaulted := c.authorization().DeepCopy()
	upstream.Default(defaulted)
	internal := &apiserver.AuthorizationConfiguration{}
	if err := upstream.Convert(defaulted, internal, nil); err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	known := sets.New("Node", "RBAC", "ABAC", "AlwaysAllow", "AlwaysDeny", "Webhook")
	errs := apiservervalidation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil, internal, known, sets.New(string(apiserver.TypeWebhook)))
	errs = errs.Filter(isElsewhere)
	for _, err := range errs {
		err.Field = path.String() + "." + c.renamed(err.Field)
	}
	return errs
}

// isElsewhere reports whether an error says that the kubeconfig of a webhook does not exist: it is a file on the control-plane nodes.
func isElsewhere(err error) bool {
	invalid := &field.Error{}
	if !errors.As(err, &invalid) || invalid.Type != field.ErrorTypeInvalid || !strings.HasSuffix(invalid.Field, ".connectionInfo.kubeConfigFile") {
		return false
	}
	file, ok := invalid.BadValue.(string)
	return ok && filepath.IsAbs(file)
}

var indexOfAuthorizer = regexp.MustCompile(`^authorizers\[(\d+)\]`)

// renamed returns the name of a field of the AuthorizationConfiguration in this configuration.
func (c *Configuration) renamed(name string) string {
	return indexOfAuthorizer.ReplaceAllStringFunc(name, func(match string) string {
		index, _ := strconv.Atoi(indexOfAuthorizer.FindStringSubmatch(match)[1])
		switch before := len(c.config.KubeAPIServer.AuthorizersBefore); {
		case index < before:
			return fmt.Sprintf("authorizersBefore[%d]", index)
		case index > before:
			return fmt.Sprintf("authorizersAfter[%d]", index-before-1)
		}
		return "frontDoor"
	})
}

// isAbout returns a matcher of the errors about missing certificates, if another error says so already.
func isAbout(path *field.Path, reported bool) func(error) bool {
	return func(err error) bool {
		invalid := &field.Error{}
		return reported && errors.As(err, &invalid) && (invalid.Field == path.String() || invalid.Field == "caBundle")
	}
}
