/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

const (
	// ConfigurationName is the name of the manifest's configuration. kube-apiserver wants this suffix in static manifests.
	ConfigurationName = "inner-door.proviso.static.k8s.io"
	// AdmitPath begins the path of the webhook's URL. The digest of the manifest follows it.
	AdmitPath = "/webhooks/admit/"
	// OtherAuthorizersKey is the key of the label selector with which the manifest asks for permissions by other authorizers
	// than Proviso. The webhook of the front door is not asked about a request with version * and this key alone.
	OtherAuthorizersKey = "authorization.proviso.dev/other"

	// timeoutSeconds bounds a call of the inner door. kube-apiserver refuses the request after it.
	timeoutSeconds = 5
	// templateVersion is part of the digest. It changes with the meaning of a manifest.
	templateVersion = "1"
)

// Config says what a manifest has.
type Config struct {
	// URL is the address of the front door's listener, which serves the inner door, too: https, a host, and a port.
	URL string `json:"url"`
	// CABundle has the certificates, in PEM, with which kube-apiserver checks the server's certificate.
	CABundle []byte `json:"caBundle"`
	// Resources are the resources whose writes the inner door decides.
	Resources []innerdoor.Resource `json:"resources"`
	// Namespace is the namespace of Proviso: of its ServiceAccount, and of its canaries (innerdoor.CanaryUser).
	Namespace string `json:"namespace"`
	// Identities are left out at both doors. If it is empty, DefaultIdentities are.
	Identities Identities `json:"identities"`
	// AsksOthers lets the manifest ask the other authorizers of kube-apiserver, by a check with the version * and the label selector
	// of OtherAuthorizersKey, and not call the inner door for what they allow. Set it only if every other authorizer answers such a
	// check as strictly as the request itself. RBAC and Node do. If it is false, kube-apiserver calls the inner door for everybody.
	AsksOthers bool `json:"asksOthers"`
	// OwnerReferences says that the admission plugin OwnerReferencesPermissionEnforcement is on. Then an update that
	// changes the owners of an object needs the permission to delete it, too.
	OwnerReferences bool `json:"ownerReferences,omitempty"`
}

// Validate returns every error of the configuration.
func (c Config) Validate() field.ErrorList {
	errs := innerdoor.ValidateResources(c.Resources, field.NewPath("resources"))
	path := field.NewPath("url")
	switch address, err := url.Parse(c.URL); {
	case err != nil:
		errs = append(errs, field.Invalid(path, c.URL, err.Error()))
	case address.Scheme != "https" || address.Host == "" || address.Hostname() == "":
		errs = append(errs, field.Invalid(path, c.URL, "must be https:// with a host"))
	case strings.HasSuffix(address.Host, ":") || net.ParseIP(address.Hostname()) == nil && len(validation.IsDNS1123Subdomain(address.Hostname())) > 0:
		errs = append(errs, field.Invalid(path, c.URL, "the host must be an IP address or a DNS name"))
	case address.User != nil || address.RawQuery != "" || address.ForceQuery || address.Fragment != "" || strings.Trim(address.Path, "/") != "":
		errs = append(errs, field.Invalid(path, c.URL, "must have nothing after the host and the port, and no user"))
	}
	if len(c.CABundle) == 0 {
		errs = append(errs, field.Required(field.NewPath("caBundle"), "kube-apiserver must check whom it calls"))
	}
	for _, message := range validation.IsDNS1123Label(c.Namespace) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), c.Namespace, message))
	}
	return errs
}

// withDefaults returns the configuration with the default identities if it has none.
func (c Config) withDefaults() Config {
	if len(c.Identities.Users)+len(c.Identities.Groups) == 0 {
		c.Identities = DefaultIdentities(c.Namespace)
	}
	return c
}

// New returns the configuration of the static webhooks. It is the same for the same input, and its URLs have the digest.
func New(config Config) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	manifest, digest, err := config.build()
	if err != nil {
		return nil, err
	}
	for i := range manifest.Webhooks {
		manifest.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr.To(strings.TrimRight(config.URL, "/") + AdmitPath + digest), CABundle: config.CABundle}
	}
	return manifest, nil
}

// Digest returns the digest in the URLs of the manifest.
func Digest(config Config) (string, error) {
	_, digest, err := config.build()
	return digest, err
}

// build returns the manifest without URLs and CAs, and its digest, which a kube-apiserver sends with each call. The CAs are not in the digest, so that they can be
// replaced without a restart: with a wrong CA kube-apiserver does not reach the inner door, and refuses the write.
func (c Config) build() (*admissionregistrationv1.ValidatingWebhookConfiguration, string, error) {
	if err := c.Validate().ToAggregate(); err != nil {
		return nil, "", err
	}
	c = c.withDefaults()
	manifest := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName},
	}
	for _, k := range innerdoor.Kinds {
		if webhook := c.webhook(k); webhook != nil {
			manifest.Webhooks = append(manifest.Webhooks, *webhook)
		}
	}
	manifest.Webhooks = append(manifest.Webhooks, c.canary())
	content, err := json.Marshal(manifest)
	if err != nil {
		return nil, "", fmt.Errorf("the manifest of the inner door: %w", err)
	}
	sum := sha256.Sum256(append([]byte(templateVersion+"\n"), content...))
	return manifest, hex.EncodeToString(sum[:16]), nil
}

// Expressions for a request. kube-apiserver leaves out fields that are empty.
const (
	nameOfRequest = "(has(request.name) ? request.name : '')"
	isNamespace   = "(request.requestResource.group == '' && request.requestResource.resource == 'namespaces')"
	// namespaceOfNamed is the namespace with which a request by name is authorized. A namespace is in itself.
	namespaceOfNamed   = "(" + isNamespace + " ? " + nameOfRequest + " : has(request.namespace) ? request.namespace : '')"
	namespaceOfUnnamed = "(!" + isNamespace + " && has(request.namespace) ? request.namespace : '')"
	sameOwners         = "(has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : []) == (has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : [])"
)

// allowed returns an expression that is true if another authorizer allows a verb. name is an expression, or "" for none.
func allowed(verb, name string) string {
	namespace, selected := namespaceOfUnnamed, ""
	if name != "" {
		namespace, selected = namespaceOfNamed, ".name("+name+")"
	}
	//guard:manifest-version-questions
	return "authorizer.group(request.requestResource.group).resource(request.requestResource.resource)" +
		".subresource(has(request.requestSubResource) ? request.requestSubResource : '')" +
		".namespace(" + namespace + ")" + selected + ".labelSelector('" + OtherAuthorizersKey + "').check('" + verb + "').allowed()"
}

// expressionOf returns an expression that is true if other authorizers allow all checks of a way.
func expressionOf(way innerdoor.Way) string {
	var parts []string
	for _, c := range way {
		name := ""
		if c.Named {
			name = nameOfRequest
		}
		parts = append(parts, allowed(c.Verb, name))
	}
	return strings.Join(parts, " && ")
}

// othersAllow returns expressions, each of which is true if other authorizers allow one way to send a write. kube-apiserver
// limits what an expression costs to two checks.
func (c Config) othersAllow(k innerdoor.Kind) []string {
	var expressions []string
	for _, way := range k.Ways {
		expression := expressionOf(way)
		//guard:manifest-owners
		if c.OwnerReferences && k.Operation == admissionregistrationv1.Update {
			expression += " && (" + sameOwners + " || " + allowed("delete", nameOfRequest) + ")"
		}
		if k.Collection != nil {
			expression = "(" + nameOfRequest + " != '' ? " + expression + " : " + expressionOf(k.Collection) + ")"
		}
		expressions = append(expressions, expression)
	}
	return expressions
}

// webhook returns the webhook for a kind of writes, or nil if no resource has them.
func (c Config) webhook(k innerdoor.Kind) *admissionregistrationv1.ValidatingWebhook {
	var rules []admissionregistrationv1.RuleWithOperations
	for _, r := range c.Resources {
		if k.Has(r) {
			rules = append(rules, admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{k.Operation},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{r.Group}, APIVersions: []string{"*"}, Resources: []string{r.Path()}},
			})
		}
	}
	if len(rules) == 0 {
		return nil
	}
	conditions := []admissionregistrationv1.MatchCondition{{
		Name:       "identities",
		Expression: c.Identities.withPrivileged().expression("request.userInfo.username", "request.userInfo.groups", "has(request.userInfo.groups)"),
	}}
	if c.AsksOthers {
		for i, other := range c.othersAllow(k) {
			conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprintf("not-allowed-by-others-%d", i+1), Expression: "!(" + other + ")"})
		}
	}
	return c.named(k.Name, rules, conditions)
}

// canary returns the webhook for canaries, which calls the inner door for all of them and for nothing else. It is the last one, so
// that a manifest that has been cut off does not call it.
func (c Config) canary() admissionregistrationv1.ValidatingWebhook {
	//guard:manifest-canaries-other-users
	return *c.named("canary", []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"configmaps"}},
	}}, []admissionregistrationv1.MatchCondition{
		{Name: "canary", Expression: "request.userInfo.username == " + strconv.Quote(innerdoor.CanaryUser)},
		{Name: "namespace", Expression: "has(request.namespace) && request.namespace == " + strconv.Quote(c.Namespace)},
	})
}

// named returns a webhook that calls the inner door.
//
//guard:manifest-fails-closed
func (c Config) named(name string, rules []admissionregistrationv1.RuleWithOperations, conditions []admissionregistrationv1.MatchCondition) *admissionregistrationv1.ValidatingWebhook {
	return &admissionregistrationv1.ValidatingWebhook{
		Name:                    name + "." + ConfigurationName,
		Rules:                   rules,
		FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
		MatchPolicy:             ptr.To(admissionregistrationv1.Exact),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          ptr.To(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions:         conditions,
	}
}

// notMarked is true unless a review is a question of the manifest: its version is "*", and its only selector is the label selector that
// CEL's function labelSelector makes of OtherAuthorizersKey. The key alone would not do: kube-apiserver copies the label
// selectors of clients into reviews, and a client with the key would avoid Deny policies. No request of a client has the version "*".
// Each field is read behind has, because an expression that fails is decided by the failure policy.
var notMarked = "!(has(request.resourceAttributes)" +
	" && has(request.resourceAttributes.version) && request.resourceAttributes.version == '*'" +
	" && !has(request.resourceAttributes.fieldSelector)" +
	" && has(request.resourceAttributes.labelSelector)" +
	" && has(request.resourceAttributes.labelSelector.requirements)" +
	" && size(request.resourceAttributes.labelSelector.requirements) == 1" +
	" && request.resourceAttributes.labelSelector.requirements.all(r," +
	" has(r.key) && r.key == " + strconv.Quote(OtherAuthorizersKey) +
	" && has(r.operator) && r.operator == 'Exists'" +
	" && (!has(r.values) || size(r.values) == 0)))"

// FrontDoorConditions returns the matchConditions of the front door in kube-apiserver's AuthorizationConfiguration: kube-apiserver
// does not call it about the identities that are left out and, if the manifest asks the other authorizers, about these questions.
func (c Config) FrontDoorConditions() []string {
	//guard:manifest-identities-front-door
	conditions := []string{c.withDefaults().Identities.expression(
		"(has(request.user) ? request.user : '')", "request.groups", "has(request.groups)")}
	//guard:manifest-marker-not-sent
	if c.AsksOthers {
		conditions = append(conditions, notMarked)
	}
	return conditions
}
