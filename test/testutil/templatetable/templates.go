/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package templatetable

import (
	"fmt"
	"slices"
	"strings"
)

// Templates are all templates, in the order of the document.
var Templates = []Template{
	restartAndScale, everythingButSecrets, namesByPrefix, ownFinalizer, ownerLabel, protection, aiAgent, ciBot,
}

// everywhere is the column of a template that holds on every cluster.
const everywhere = "yes"

func namespaceObject(name string, labels ...string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s}}\n", name, strings.Join(labels, ", "))
}

// stored is an object for Setup. Its body is YAML in the flow style.
func stored(apiVersion, kind, namespace, name, metadata, body string) string {
	return fmt.Sprintf("---\n{apiVersion: %s, kind: %s, metadata: {namespace: %s, name: %s%s}%s}\n", apiVersion, kind, namespace, name, then(metadata), then(body))
}

func then(text string) string {
	if text != "" {
		text = ", " + text
	}
	return text
}

// object is an object for a body, as JSON.
func object(apiVersion, kind, metadata, body string) string {
	return fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {%s}%s}`, apiVersion, kind, metadata, then(body))
}

func configMap(metadata string) string {
	return object("v1", "ConfigMap", metadata, `"data": {"a": "b"}`)
}

func service(metadata string) string {
	return object("v1", "Service", metadata, `"spec": {"ports": [{"port": 80}]}`)
}

func deployment(metadata, image, pod string) string {
	return object("apps/v1", "Deployment", metadata, deploymentSpec(image, "", pod))
}

// deploymentSpec is the spec of a Deployment with one container, and with annotations and other fields of its pods.
func deploymentSpec(image, annotations, pod string) string {
	return fmt.Sprintf(`"spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}, "annotations": {%s}}, `+
		`"spec": {"containers": [{"name": "c", "image": %q}]%s}}}`, annotations, image, then(pod))
}

func claimSpec() string {
	return `"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}`
}

func podSpec() string { return `"spec": {"containers": [{"name": "c", "image": "i"}]}` }

func core(namespace, path string) string { return "/api/v1/namespaces/" + namespace + "/" + path }

func apps(namespace, path string) string { return "/apis/apps/v1/namespaces/" + namespace + "/" + path }

const (
	// ownerReference gives an object an owner that does not exist.
	ownerReference = `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "11111111-2222-3333-4444-555555555555"}]}}`
	selfReview     = `{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}`
	selfReviews    = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	rules          = "/apis/rbac.authorization.k8s.io/v1/"
)

var restartAndScale = func() Template {
	const name, by = "restart-and-scale", "restart-and-scale"
	web, scale, status := apps("shop", "deployments/web"), apps("shop", "deployments/web/scale"), apps("shop", "deployments/web/status")
	annotate := func(key, value string) string {
		return `{"spec": {"template": {"metadata": {"annotations": {"` + key + `": ` + value + `}}}}}`
	}
	const restartedAt = "kubectl.kubernetes.io/restartedAt"
	refuse := func(what string, m method, path, body string) Row { return refused(by, what, m, path, body) }
	return Template{
		Name: name, Managed: everywhere, As: person("rita", "restarters"),
		Setup: namespaceObject("shop") + stored("apps/v1", "Deployment", "shop", "web", `labels: {a: b}`, deploymentSpec("web:1", `"note": "1"`, "")),
		Rows: []Row{
			passes("restart", strategic, web, annotate(restartedAt, `"2030-01-01T00:00:00Z"`)),
			passes("restart again, by a merge patch", merge, web, annotate(restartedAt, `"2030-01-01T00:00:01Z"`)),
			passes("restart by server-side apply", apply, web, object("apps/v1", "Deployment", `"name": "web"`, `"spec": {"template": {"metadata": {"annotations": {"`+restartedAt+`": "2030-01-01T00:00:02Z"}}}}`)),
			passes("scale to 3", merge, scale, `{"spec": {"replicas": 3}}`),
			passes("scale to 20", merge, scale, `{"spec": {"replicas": 20}}`),
			passesByKubectl("rollout", "restart", "deployment/web", "--namespace=shop").isNoDryRun(),
			passesByKubectl("scale", "deployment/web", "--replicas=4", "--namespace=shop"),
			refusedByKubectl(by, "set", "image", "deployment/web", "c=web:2", "--namespace=shop"),
			refusedByKubectl(by, "scale", "deployment/web", "--replicas=21", "--namespace=shop"),
			refusedByKubectl(by, "rollout", "pause", "deployment/web", "--namespace=shop").isNoDryRun(),
			refusedByKubectl(by, "label", "deployment/web", "a=c", "--overwrite", "--namespace=shop"),
			refuse("change the image", strategic, web, `{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}}`),
			refuse("change the image by a JSON patch", jsonPatch, web, `[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:2"}]`),
			refuse("change the image by server-side apply", apply, web, deployment(`"name": "web"`, "web:2", "")),
			refuse("replace the Deployment", put, web, deployment(`"name": "web", "labels": {"a": "b"}, "resourceVersion": "`+storedVersion+`"`, "web:2", "")),
			refuse("restart, and add a container", strategic, web, `{"spec": {"template": {"metadata": {"annotations": {"`+restartedAt+`": "x"}}, "spec": {"containers": [{"name": "d", "image": "web:2"}]}}}}`),
			refuse("restart, and change the service account", merge, web, `{"spec": {"template": {"metadata": {"annotations": {"`+restartedAt+`": "x"}}, "spec": {"serviceAccountName": "deployer"}}}}`),
			refuse("add another annotation of the pods", merge, web, annotate("other", `"x"`)),
			refuse("change another annotation of the pods", merge, web, annotate("note", `"2"`)),
			refuse("remove another annotation of the pods", merge, web, annotate("note", "null")),
			refuse("remove all annotations of the pods", merge, web, `{"spec": {"template": {"metadata": {"annotations": null}}}}`),
			refuse("change labels of the pods", merge, web, `{"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}}`),
			refuse("change labels of the Deployment", merge, web, `{"metadata": {"labels": {"a": "c"}}}`),
			refuse("remove labels of the Deployment", merge, web, `{"metadata": {"labels": null}}`),
			refuse("add an annotation of the Deployment", merge, web, `{"metadata": {"annotations": {"x": "y"}}}`),
			refuse("give it an owner", merge, web, ownerReference),
			refuse("add a finalizer", merge, web, `{"metadata": {"finalizers": ["example.com/x"]}}`),
			refuse("pause it", merge, web, `{"spec": {"paused": true}}`),
			refuse("add a field that was missing", merge, web, `{"spec": {"minReadySeconds": 5}}`),
			refuse("change the strategy", merge, web, `{"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}}}`),
			refuse("scale in the Deployment itself", merge, web, `{"spec": {"replicas": 5}}`),
			refuse("scale to 0", merge, scale, `{"spec": {"replicas": 0}}`),
			refuse("scale to 21", merge, scale, `{"spec": {"replicas": 21}}`),
			refuse("replace the scale", put, scale, object("autoscaling/v1", "Scale", `"name": "web", "namespace": "shop"`, `"spec": {"replicas": 50}`)),
			refuse("change labels by the status", merge, status, `{"metadata": {"labels": {"a": "c"}}}`),
			refuse("delete it", remove, web, ""),
			refuse("delete it, and leave its pods", remove, web+"?propagationPolicy=Orphan", ""),
			refuse("delete the collection", remove, apps("shop", "deployments"), ""),
			refuse("create a Deployment", post, apps("shop", "deployments"), deployment(`"name": "new"`, "web:1", "")),
			refuse("create one with a generated name", post, apps("shop", "deployments"), deployment(`"generateName": "new-"`, "web:1", "")),
			refuse("create one by server-side apply", apply, apps("shop", "deployments/new"), deployment(`"name": "new"`, "web:1", "")),
		},
	}
}()

var everythingButSecrets = func() Template {
	const name, by, ways = "everything-but-secrets", "everything-but-secrets", "no-way-to-secrets"
	secrets, pod := core("vault", "secrets"), core("vault", "pods/none")
	refuse := func(what string, m method, path, body string) Row { return refused(ways, what, m, path, body) }
	read := func(by, what, path string) Row { return refused(by, what, get, path, "").byRole() }
	return Template{
		Name: name, Managed: "writes and connections; the role must name what may be read", As: person("audra", "auditors"),
		Setup: namespaceObject("vault") + stored("v1", "Secret", "vault", "key", "", "stringData: {a: b}") + stored("v1", "ConfigMap", "vault", "settings", "", "data: {a: b}") +
			stored("v1", "ServiceAccount", "vault", "ci", "", "") + stored("v1", "Pod", "vault", "web", "", podSpec()),
		Rows: []Row{
			passes("get a ConfigMap", get, core("vault", "configmaps/settings"), ""),
			passes("list the pods of all namespaces", get, "/api/v1/pods", ""),
			passes("list roles", get, rules+"clusterroles", ""),
			passes("ask about own permissions", post, selfReviews, selfReview),
			read(by, "get a secret", secrets+"/key"),
			read(by, "list secrets", secrets),
			read(by, "list the secrets of all namespaces", "/api/v1/secrets"),
			read(by, "watch secrets", secrets+"?watch=true&timeoutSeconds=1"),
			read(by, "watch secrets by the old path", "/api/v1/watch/namespaces/vault/secrets?timeoutSeconds=1"),
			read(by, "select one secret by a field", secrets+"?fieldSelector=metadata.name%3Dkey"),
			refuse("create a secret", post, secrets, object("v1", "Secret", `"name": "new"`, "")),
			refuse("patch a secret, whose answer shows it", merge, secrets+"/key", `{"metadata": {"labels": {"a": "b"}}}`),
			refuse("apply a secret, whose answer shows it", apply, secrets+"/key", object("v1", "Secret", `"name": "key"`, "")),
			refuse("delete a secret, whose answer shows it", remove, secrets+"/key", ""),
			refuse("delete all secrets, whose answer lists them", remove, secrets, ""),
			refuse("create a pod, which could mount a secret", post, core("vault", "pods"), object("v1", "Pod", `"name": "new"`, podSpec())),
			refuse("create a Deployment", post, apps("vault", "deployments"), deployment(`"name": "new"`, "i", "")),
			refuse("add an ephemeral container", strategic, core("vault", "pods/web/ephemeralcontainers"), `{"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}`),
			refuse("patch a ConfigMap", merge, core("vault", "configmaps/settings"), `{"data": {"a": "c"}}`),
			refuse("create a token of a service account", post, core("vault", "serviceaccounts/ci/token"), `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}`),
			refuse("bind a role", post, rules+"clusterrolebindings", object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", `"name": "mine"`, `"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}`)),
			refuse("register a webhook, which would see secrets", post, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", `"name": "mine"`, "")),
			refuse("exec with POST", post, pod+"/exec?command=env", "").isNoDryRun(),
			refuse("exec with GET", get, pod+"/exec?command=env", "").isNoDryRun(),
			refuse("attach with GET", get, pod+"/attach?stdout=true", "").isNoDryRun(),
			refuse("forward a port", post, pod+"/portforward", "").isNoDryRun(),
			refuse("impersonate another user", post, "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "audra", "groups": ["auditors", "system:authenticated"], "resourceAttributes": {"verb": "impersonate", "version": "v1", "resource": "users", "name": "admin"}}}`).byRole().asked(),
			read(ways, "get through the proxy of a pod", pod+"/proxy/env").isNoDryRun(),
			read(ways, "get through the proxy of a service", core("vault", "services/none/proxy/env")).isNoDryRun(),
			read(ways, "get through the proxy of a node", "/api/v1/nodes/none/proxy/pods").isNoDryRun(),
		},
	}
}()

var namesByPrefix = func() Template {
	const name, by = "names-by-prefix", "names-by-prefix"
	maps, deployments := core("shared", "configmaps"), apps("shared", "deployments")
	refuse := func(what string, m method, path, body string) Row { return refused(by, what, m, path, body) }
	return Template{
		Name: name, Managed: everywhere, As: person("tina", "team-a"),
		Setup: namespaceObject("shared") + stored("v1", "ConfigMap", "shared", "team-a-old", "", "data: {a: b}") + stored("v1", "ConfigMap", "shared", "other", "labels: {a: b}", "data: {a: b}") +
			stored("v1", "Service", "shared", "other", "", "spec: {ports: [{port: 80}]}") +
			stored("apps/v1", "Deployment", "shared", "team-a-web", "", deploymentSpec("i", "", "")) + stored("apps/v1", "Deployment", "shared", "other", "", deploymentSpec("i", "", "")),
		Rows: []Row{
			passes("create one with the prefix", post, maps, configMap(`"name": "team-a-new"`)),
			passes("create one whose generated name has the prefix", post, maps, configMap(`"generateName": "team-a-"`)),
			passes("create one by server-side apply", apply, maps+"/team-a-applied", configMap(`"name": "team-a-applied"`)),
			passes("patch one with the prefix", merge, maps+"/team-a-old", `{"data": {"a": "c"}}`),
			passes("scale one with the prefix", merge, deployments+"/team-a-web/scale", `{"spec": {"replicas": 3}}`),
			passes("delete one with the prefix", remove, maps+"/team-a-old", ""),
			refuse("create one without the prefix", post, maps, configMap(`"name": "settings"`)),
			refuse("create one with the prefix elsewhere in its name", post, maps, configMap(`"name": "x-team-a-new"`)),
			refuse("create one whose generated name has another prefix", post, maps, configMap(`"generateName": "settings-"`)),
			refuse("create one with a name, and a generated name with the prefix", post, maps, configMap(`"name": "settings", "generateName": "team-a-"`)),
			refuse("create a service with PUT", put, core("shared", "services/new"), service(`"name": "new"`)),
			refuse("create one by server-side apply without the prefix", apply, maps+"/settings", configMap(`"name": "settings"`)),
			refuse("patch another one", merge, maps+"/other", `{"data": {"a": "c"}}`),
			refuse("patch another one by a JSON patch", jsonPatch, maps+"/other", `[{"op": "replace", "path": "/data/a", "value": "c"}]`),
			refuse("replace another one", put, maps+"/other", configMap(`"name": "other"`)),
			refuse("scale another one", merge, deployments+"/other/scale", `{"spec": {"replicas": 0}}`),
			refuse("change labels of another one by its status", merge, core("shared", "services/other/status"), `{"metadata": {"labels": {"a": "c"}}}`),
			refuse("delete another one", remove, maps+"/other", ""),
			refuse("delete another one by a selector", remove, maps+"?labelSelector=a%3Db", ""),
		},
	}
}()

var ownFinalizer = func() Template {
	const name, by = "own-finalizer", "own-finalizer"
	claims := core("data", "persistentvolumeclaims")
	data := claims + "/data"
	finalizers := func(list string) string { return `{"metadata": {"finalizers": [` + list + `]}}` }
	const protect, own, other = `"kubernetes.io/pvc-protection"`, `"example.com/backup"`, `"example.com/other"`
	refuse := func(what string, m method, path, body string) Row { return refused(by, what, m, path, body) }
	return Template{
		Name: name, Managed: everywhere, As: serviceAccount("backup", "controller"),
		Setup: namespaceObject("data") + stored("v1", "PersistentVolumeClaim", "data", "data", `labels: {a: b}, finalizers: [example.com/other]`, claimSpec()) +
			stored("v1", "PersistentVolumeClaim", "data", "leaving", `finalizers: [example.com/backup]`, claimSpec()),
		Steps: []Row{{What: "delete a claim", method: remove, path: claims + "/leaving"}},
		Rows: []Row{
			passes("add the finalizer", merge, data, finalizers(other+", "+protect+", "+own)),
			passes("remove the finalizer", merge, data, finalizers(other+", "+protect)),
			passes("add the finalizer by a JSON patch", jsonPatch, data, `[{"op": "add", "path": "/metadata/finalizers/-", "value": `+own+`}]`),
			passes("add the finalizer by server-side apply", apply, data, object("v1", "PersistentVolumeClaim", `"name": "data", "finalizers": [`+own+`]`, "")),
			passes("remove the finalizer of a claim that is being deleted", merge, claims+"/leaving", finalizers(protect)),
			refuse("remove another finalizer", merge, data, finalizers(protect+", "+own)),
			refuse("remove all finalizers", merge, data, `{"metadata": {"finalizers": null}}`),
			refuse("add another finalizer", merge, data, finalizers(other+", "+protect+`, "example.com/more"`)),
			refuse("change the order of other finalizers", merge, data, finalizers(protect+", "+other)),
			refuse("change a label", merge, data, `{"metadata": {"labels": {"a": "c"}}}`),
			refuse("remove all labels", merge, data, `{"metadata": {"labels": null}}`),
			refuse("add an annotation, with the finalizer", merge, data, `{"metadata": {"annotations": {"a": "b"}, "finalizers": [`+other+", "+protect+", "+own+`]}}`),
			refuse("give it an owner", merge, data, ownerReference),
			refuse("bind it to a volume", merge, data, `{"spec": {"volumeName": "v"}}`),
			refuse("change labels by server-side apply", apply, data, object("v1", "PersistentVolumeClaim", `"name": "data", "labels": {"x": "y"}`, "")),
			refuse("remove finalizers by the status", merge, data+"/status", `{"metadata": {"finalizers": null}}`),
			refuse("change labels by the status", merge, data+"/status", `{"metadata": {"labels": {"a": "c"}}}`),
			refuse("change the status", merge, data+"/status", `{"status": {"phase": "Lost"}}`),
			refuse("delete a claim", remove, data, ""),
			refuse("delete the collection", remove, claims, ""),
			refuse("create a claim", post, claims, object("v1", "PersistentVolumeClaim", `"name": "new", "finalizers": [`+own+`]`, claimSpec())),
			refuse("create a claim by server-side apply", apply, claims+"/new", object("v1", "PersistentVolumeClaim", `"name": "new", "finalizers": [`+own+`]`, claimSpec())),
		},
	}
}()

var ownerLabel = func() Template {
	const name, by = "owner-label", "owner-label"
	maps, deployments, services := core("tenants", "configmaps"), apps("tenants", "deployments"), core("tenants", "services")
	owner := func(user string) string { return `"labels": {"owner": "` + user + `"}` }
	named := func(name string) string { return `"name": "` + name + `"` }
	take := func(value string) string { return `{"metadata": {"labels": {"owner": ` + value + `}}}` }
	refuse := func(what string, m method, path, body string) Row { return refused(by, what, m, path, body) }
	return Template{
		Name: name, Managed: everywhere, As: person("ada", "tenants"),
		Setup: namespaceObject("tenants") + stored("v1", "ConfigMap", "tenants", "mine", "labels: {owner: ada}", "data: {a: b}") +
			stored("v1", "ConfigMap", "tenants", "of-bob", "labels: {owner: bob}", "data: {a: b}") + stored("v1", "ConfigMap", "tenants", "of-none", "", "data: {a: b}") +
			stored("v1", "Service", "tenants", "of-bob", "labels: {owner: bob}", "spec: {ports: [{port: 80}]}") +
			stored("apps/v1", "Deployment", "tenants", "mine", "labels: {owner: ada}", deploymentSpec("i", "", "")) +
			stored("apps/v1", "Deployment", "tenants", "of-bob", "labels: {owner: bob}", deploymentSpec("i", "", "")),
		Rows: []Row{
			passes("create one with the own label", post, maps, configMap(named("new")+", "+owner("ada"))),
			passes("create one with a generated name", post, maps, configMap(`"generateName": "new-", `+owner("ada"))),
			passes("create one by server-side apply", apply, maps+"/applied", configMap(named("applied")+", "+owner("ada"))),
			passes("patch the own one", merge, maps+"/mine", `{"data": {"a": "c"}}`),
			passes("replace the own one", put, maps+"/mine", configMap(named("mine")+", "+owner("ada"))),
			passes("scale the own Deployment by a patch of it", merge, deployments+"/mine", `{"spec": {"replicas": 3}}`),
			passes("delete the own ones by the label", remove, maps+"?labelSelector=owner%3Dada", ""),
			refuse("create one without the label", post, maps, configMap(named("free"))),
			refuse("create one for another user", post, maps, configMap(named("free")+", "+owner("bob"))),
			refuse("create one without the label by server-side apply", apply, maps+"/free", configMap(named("free"))),
			refuse("create a service without the label with PUT", put, services+"/free", service(named("free"))),
			refuse("patch one of another user", merge, maps+"/of-bob", `{"data": {"a": "c"}}`),
			refuse("take one of another user", merge, maps+"/of-bob", take(`"ada"`)),
			refuse("take one of another user by a JSON patch", jsonPatch, maps+"/of-bob", `[{"op": "replace", "path": "/metadata/labels/owner", "value": "ada"}]`),
			refuse("take one of another user by server-side apply", apply, maps+"/of-bob", configMap(named("of-bob")+", "+owner("ada"))),
			refuse("take one of another user with PUT", put, maps+"/of-bob", configMap(named("of-bob")+", "+owner("ada"))),
			refuse("take one without an owner", merge, maps+"/of-none", take(`"ada"`)),
			refuse("patch one without an owner", merge, maps+"/of-none", `{"data": {"a": "c"}}`),
			refuse("give away an own Deployment", merge, deployments+"/mine", take(`"bob"`)),
			refuse("remove the label of an own Deployment", merge, deployments+"/mine", take("null")),
			refuse("delete one of another user", remove, maps+"/of-bob", ""),
			refuse("delete one without an owner", remove, maps+"/of-none", ""),
			refuse("delete the collection", remove, maps+"?labelSelector=owner!%3Dada", ""),
			refuse("scale a Deployment of another user", merge, deployments+"/of-bob/scale", `{"spec": {"replicas": 0}}`),
			refuse("scale an own Deployment by its scale, which has no labels", merge, deployments+"/mine/scale", `{"spec": {"replicas": 0}}`),
			refuse("take a service by its status", merge, services+"/of-bob/status", take(`"ada"`)),
			refuse("take a Deployment by its status", merge, deployments+"/of-bob/status", take(`"ada"`)),
			refuse("create one as a user whose name is no value of a label", post, maps, configMap(named("free")+", "+owner("ada"))).as(person("ada@example.com", "tenants")),
		},
	}
}()

var protection = func() Template {
	const name, by = "protection", "protection"
	maps, pods, budgets := core("keep", "configmaps"), core("keep", "pods"), "/apis/policy/v1/namespaces/keep/poddisruptionbudgets/protected"
	kept, web := maps+"/kept", pods+"/web"
	const label, labelled = `labels: {protected: "true"}`, `"labels": {"protected": "true"}`
	refuse := func(what string, m method, path, body string) Row { return refused(by, what, m, path, body) }
	admin := person("paul", "protection-admins")
	evict := func(pod string) string { return object("policy/v1", "Eviction", `"name": "`+pod+`"`, "") }
	running := func(namespace string) Row {
		return Row{What: "run a pod", method: merge, path: core(namespace, "pods/web/status"), body: `{"status": {"phase": "Running"}}`}
	}
	return Template{
		Name: name, Managed: "yes; a PodDisruptionBudget stops evictions", As: person("petra"),
		Setup: namespaceObject("keep", `protected: "true"`) + namespaceObject("open") + stored("v1", "ConfigMap", "keep", "kept", label+", finalizers: [example.com/wait]", "data: {a: b}") +
			stored("v1", "ConfigMap", "keep", "free", "", "data: {a: b}") + stored("v1", "Service", "keep", "kept", label, "spec: {ports: [{port: 80}]}") +
			stored("v1", "Pod", "keep", "web", label, podSpec()) + stored("v1", "Pod", "open", "web", label, podSpec()) +
			stored("v1", "PersistentVolumeClaim", "keep", "kept", label, claimSpec()) + stored("apps/v1", "Deployment", "keep", "kept", label, deploymentSpec("i", "", "")) +
			`---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: protected, namespace: open, labels: {protected: "true"}}
spec: {maxUnavailable: 0, selector: {matchLabels: {protected: "true"}}}
`,
		Steps: []Row{running("keep"), running("open")},
		Rows: []Row{
			passes("change the data of a protected one", merge, kept, `{"data": {"a": "c"}}`),
			passes("add a finalizer to a protected one", jsonPatch, kept, `[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more"}]`),
			passes("protect one", merge, maps+"/free", `{"metadata": {`+labelled+`}}`).as(admin),
			passes("remove the label, as a member of protection-admins", merge, maps+"/free", `{"metadata": {"labels": {"protected": null}}}`).as(admin),
			passes("delete one without the label", remove, maps+"/free", ""),
			passes("delete a protected one, as a member of protection-admins", remove, core("keep", "services/kept")+"?dryRun=All", "").as(admin),
			refuse("delete a protected one", remove, kept, ""),
			refuse("delete it, and leave what it owns", remove, kept+"?propagationPolicy=Orphan", ""),
			refuse("delete the collection", remove, maps, ""),
			refuse("delete it by a selector", remove, maps+"?labelSelector=protected", ""),
			refuse("delete a pod at once", remove, web+"?gracePeriodSeconds=0", ""),
			refuse("delete a claim", remove, core("keep", "persistentvolumeclaims/kept"), ""),
			refuse("delete a Deployment", remove, apps("keep", "deployments/kept"), ""),
			refuse("delete the namespace", remove, "/api/v1/namespaces/keep", ""),
			refuse("remove the label", merge, kept, `{"metadata": {"labels": {"protected": null}}}`),
			refuse("remove all labels", merge, kept, `{"metadata": {"labels": null}}`),
			refuse("remove the label by a JSON patch", jsonPatch, kept, `[{"op": "remove", "path": "/metadata/labels/protected"}]`),
			refuse("change the label by server-side apply", apply, kept, configMap(`"name": "kept", "labels": {"protected": "false"}`)),
			refuse("remove the label with PUT", put, kept, configMap(`"name": "kept", "finalizers": ["example.com/wait"]`)),
			refuse("remove the label of the namespace", merge, "/api/v1/namespaces/keep", `{"metadata": {"labels": {"protected": null}}}`),
			refuse("remove the label of a pod by its status", merge, web+"/status", `{"metadata": {"labels": {"protected": null}}}`),
			refuse("remove the label of a service by its status", merge, core("keep", "services/kept/status"), `{"metadata": {"labels": {"protected": null}}}`),
			refuse("give it an owner that does not exist", merge, kept, ownerReference),
			refuse("give it an owner by server-side apply", apply, kept, configMap(`"name": "kept", `+strings.TrimSuffix(strings.TrimPrefix(ownerReference, `{"metadata": {`), "}}"))),
			refuse("give a pod an owner", strategic, web, ownerReference),
			refuse("remove a finalizer", merge, kept, `{"metadata": {"finalizers": null}}`),
			refuse("remove a finalizer by a JSON patch", jsonPatch, kept, `[{"op": "remove", "path": "/metadata/finalizers"}]`),
			refuse("end a pod by a deadline", merge, web, `{"spec": {"activeDeadlineSeconds": 1}}`),
			refuse("delete the PodDisruptionBudget", remove, budgets, ""),
			refuse("change the PodDisruptionBudget", merge, budgets, `{"spec": {"maxUnavailable": 1}}`),
			refuse("change the status of the PodDisruptionBudget", merge, budgets+"/status", `{"status": {"disruptionsAllowed": 1, "observedGeneration": 1}}`),
			refused("protection-evictions", "evict a running pod of a namespace with the label", post, web+"/eviction", evict("web")).byBudget(),
			passes("evict a running pod of another namespace", post, core("open", "pods/web/eviction"), evict("web")).byBudget(),
		},
	}
}()

var aiAgent = func() Template {
	const name, by, enters, reads = "ai-agent", "ai-agent", "ai-agent-connections", "ai-agent-reads"
	maps := core("agent-demo", "configmaps")
	mine, deployments := maps+"/mine", apps("agent-demo", "deployments")
	const label, labelled = "labels: {agent: assistant}", `"labels": {"agent": "assistant"}`
	refuse := func(what string, m method, path, body string) Row { return refused(by, what, m, path, body) }
	return Template{
		Name: name, Managed: "writes and connections; bind the role in each namespace", As: serviceAccount("agents", "assistant"),
		Setup: namespaceObject("agent-demo") + namespaceObject("prod") + stored("v1", "ConfigMap", "agent-demo", "mine", label, "data: {a: b}") +
			stored("v1", "ConfigMap", "agent-demo", "other", "", "data: {a: b}") + stored("v1", "ConfigMap", "prod", "mine", label, "data: {a: b}") +
			stored("v1", "ServiceAccount", "agent-demo", "ci", label, "") + stored("v1", "Pod", "agent-demo", "web", label, podSpec()) +
			stored("apps/v1", "Deployment", "agent-demo", "mine", label, deploymentSpec("i:1", "", "")),
		Steps: []Row{{What: "run a pod", method: merge, path: core("agent-demo", "pods/web/status"), body: `{"status": {"phase": "Running"}}`}},
		Rows: []Row{
			passes("patch one with the label", merge, mine, `{"data": {"a": "c"}}`),
			passes("patch a Deployment with the label", strategic, deployments+"/mine", `{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}}`),
			passes("apply one with the label", apply, mine, configMap(`"name": "mine", `+labelled)),
			passes("read in the namespace", get, maps, ""),
			passes("ask about own permissions", post, selfReviews, selfReview),
			refuse("patch one without the label", merge, maps+"/other", `{"data": {"a": "c"}}`),
			refuse("patch one by a JSON patch", jsonPatch, maps+"/other", `[{"op": "replace", "path": "/data/a", "value": "c"}]`),
			refuse("label one", merge, maps+"/other", `{"metadata": {`+labelled+`}}`),
			refuse("apply the label", apply, maps+"/other", configMap(`"name": "other", `+labelled)),
			refuse("remove the label", merge, mine, `{"metadata": {"labels": null}}`),
			refuse("patch one with the label in another namespace", merge, core("prod", "configmaps/mine"), `{"data": {"a": "c"}}`),
			refuse("give one an owner, so that it is deleted", merge, mine, ownerReference),
			refuse("add a finalizer, so that it stays", merge, mine, `{"metadata": {"finalizers": ["example.com/x"]}}`),
			refuse("delete one with the label", remove, mine, ""),
			refuse("delete the collection", remove, maps+"?labelSelector=agent%3Dassistant", ""),
			refuse("create one with the label", post, maps, configMap(`"name": "new", `+labelled)),
			refuse("create one with a generated name", post, maps, configMap(`"generateName": "new-", `+labelled)),
			refuse("create one by server-side apply", apply, maps+"/new", configMap(`"name": "new", `+labelled)),
			refuse("scale a Deployment by its scale", merge, deployments+"/mine/scale", `{"spec": {"replicas": 9}}`),
			refuse("change the status of a Deployment", merge, deployments+"/mine/status", `{"metadata": {"labels": {"a": "b"}}}`),
			refuse("add an ephemeral container", strategic, core("agent-demo", "pods/web/ephemeralcontainers"), `{"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}`),
			refuse("create a token of a service account", post, core("agent-demo", "serviceaccounts/ci/token"), `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}`),
			refuse("create a namespace of the agent", post, "/api/v1/namespaces", object("v1", "Namespace", `"name": "agent-new", `+labelled, "")),
			refuse("label a namespace", merge, "/api/v1/namespaces/agent-demo", `{"metadata": {`+labelled+`}}`),
			refused(enters, "exec with GET", get, core("agent-demo", "pods/none/exec?command=sh"), "").isNoDryRun(),
			refused(enters, "exec with POST", post, core("agent-demo", "pods/none/exec?command=sh"), "").isNoDryRun(),
			refuse("evict a pod", post, core("agent-demo", "pods/web/eviction"), object("policy/v1", "Eviction", `"name": "web"`, "")),
			refused(reads, "read in another namespace", get, core("prod", "configmaps"), "").byRole(),
			refused(reads, "read in all namespaces", get, "/api/v1/configmaps", "").byRole(),
			refused(reads, "read secrets", get, core("agent-demo", "secrets"), "").byRole(),
		},
	}
}()

var ciBot = func() Template {
	const name, by, others, reads = "ci-bot", "ci-bot", "ci-bot-others", "ci-bot-reads"
	home := apps("team-x", "deployments")
	app := func(name, image, pod string) string { return deployment(`"name": "`+name+`"`, image, pod) }
	const image = "registry.example.com/team-x/app:1"
	refuse := func(what string, m method, path, body string) Row { return refused(by, what, m, path, body) }
	return Template{
		Name: name, Managed: "writes and connections; bind the role in each namespace", As: serviceAccount("ci", "team-x"),
		Setup: namespaceObject("team-x") + namespaceObject("team-y") + stored("apps/v1", "Deployment", "team-x", "app", "", deploymentSpec(image, "", "")) +
			stored("v1", "ConfigMap", "team-y", "settings", "", "data: {a: b}") + stored("v1", "Pod", "team-x", "web", "", podSpec()),
		Rows: []Row{
			passes("create a Deployment", post, home, app("new", image, "")),
			passes("apply a Deployment", apply, home+"/app", app("app", image, "")),
			passes("create a ConfigMap", post, core("team-x", "configmaps"), configMap(`"name": "new"`)),
			passes("create a Service", post, core("team-x", "services"), service(`"name": "new"`)),
			passes("delete a ConfigMap", remove, core("team-x", "configmaps")+"?fieldSelector=metadata.name%3Dnew", ""),
			passes("read in the own namespace", get, home, ""),
			passes("ask about own permissions", post, selfReviews, selfReview),
			refuse("create a ConfigMap in another namespace", post, core("team-y", "configmaps"), configMap(`"name": "new"`)),
			refuse("apply a Deployment in another namespace", apply, apps("team-y", "deployments/app"), app("app", "registry.example.com/team-y/app:1", "")),
			refuse("delete in another namespace", remove, core("team-y", "configmaps/settings"), ""),
			refuse("deploy as a bot of no namespace", post, home, app("new-2", image, "")).as(serviceAccount("ci", "nightly")),
			refuse("deploy an image of another registry", post, home, app("bad", "docker.io/app:1", "")),
			refuse("deploy an image of another team", post, home, app("bad", "registry.example.com/team-y/app:1", "")),
			refuse("deploy an image whose path goes up", post, home, app("bad", "registry.example.com/team-x/../team-y/app:1", "")),
			refuse("change the image", strategic, home+"/app", `{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "docker.io/app:1"}]}}}}`),
			refuse("add a container", strategic, home+"/app", `{"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "docker.io/app:1"}]}}}}`),
			refuse("add an init container", strategic, home+"/app", `{"spec": {"template": {"spec": {"initContainers": [{"name": "d", "image": "docker.io/app:1"}]}}}}`),
			refuse("run as another service account", post, home, app("bad", image, `"serviceAccountName": "admin"`)),
			refuse("run as another service account, by the old name of the field", post, home, app("bad", image, `"serviceAccount": "admin"`)),
			refuse("use the network of the node", post, home, app("bad", image, `"hostNetwork": true`)),
			refuse("mount a directory of the node", post, home, app("bad", image, `"volumes": [{"name": "v", "hostPath": {"path": "/"}}]`)),
			refuse("choose the node", post, home, app("bad", image, `"nodeName": "node-1"`)),
			refused(others, "create a pod", post, core("team-x", "pods"), object("v1", "Pod", `"name": "new"`, podSpec())),
			refused(others, "create a DaemonSet", post, apps("team-x", "daemonsets"), object("apps/v1", "DaemonSet", `"name": "new"`, strings.Replace(deploymentSpec(image, "", ""), `"replicas": 2, `, "", 1))),
			refused(others, "create a secret", post, core("team-x", "secrets"), object("v1", "Secret", `"name": "new"`, "")),
			refused(others, "bind a role", post, rules+"namespaces/team-x/rolebindings", object("rbac.authorization.k8s.io/v1", "RoleBinding", `"name": "mine"`, `"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}`)),
			refused(others, "scale by the scale", merge, home+"/app/scale", `{"spec": {"replicas": 9}}`),
			refused(others, "change the status", merge, home+"/app/status", `{"metadata": {"labels": {"a": "b"}}}`),
			refused(others, "create a namespace", post, "/api/v1/namespaces", object("v1", "Namespace", `"name": "team-z"`, "")),
			refused(others, "exec with GET", get, core("team-x", "pods/none/exec?command=sh"), "").isNoDryRun(),
			refused(others, "add an ephemeral container", strategic, core("team-x", "pods/web/ephemeralcontainers"), `{"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}`),
			refused(reads, "read in another namespace", get, core("team-y", "configmaps"), "").byRole(),
			refused(reads, "read in all namespaces", get, "/api/v1/configmaps", "").byRole(),
			refused(reads, "read secrets", get, core("team-x", "secrets"), "").byRole(),
		},
	}
}()

// Rows returns how many requests all templates have.
func Rows() (rows int) {
	for t := range slices.Values(Templates) {
		rows += len(t.Rows)
	}
	return rows
}
