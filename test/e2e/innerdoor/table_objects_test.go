/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

// tableResources are the resources of the configuration for the table. replicasets can be written and not read, events are denied
// in part, and endpoints have a condition on the path. resourcequotas are not listed.
const tableResources = `resources:
- resource: configmaps
- resource: secrets
- resource: serviceaccounts
- {resource: serviceaccounts, subresource: token}
- resource: persistentvolumeclaims
- {resource: persistentvolumeclaims, subresource: status}
- resource: services
- {resource: services, subresource: status}
- resource: limitranges
- resource: endpoints
- resource: pods
- {resource: pods, subresource: status}
- {resource: pods, subresource: binding}
- {resource: pods, subresource: ephemeralcontainers}
- {resource: pods, subresource: resize}
- resource: namespaces
- {resource: namespaces, subresource: status}
- {resource: namespaces, subresource: finalize}
- resource: persistentvolumes
- {resource: persistentvolumes, subresource: status}
- {group: apps, resource: deployments}
- {group: apps, resource: deployments, subresource: scale}
- {group: apps, resource: deployments, subresource: status}
- {group: apps, resource: statefulsets}
- {group: apps, resource: statefulsets, subresource: scale}
- {group: apps, resource: replicasets}
- {group: batch, resource: jobs}
- {group: batch, resource: cronjobs}
- {group: batch, resource: cronjobs, subresource: status}
- {group: networking.k8s.io, resource: networkpolicies}
- {group: networking.k8s.io, resource: ingresses}
- {group: coordination.k8s.io, resource: leases}
- {group: rbac.authorization.k8s.io, resource: roles}
- {group: policy, resource: poddisruptionbudgets}
- {group: autoscaling, resource: horizontalpodautoscalers}
- {group: autoscaling, resource: horizontalpodautoscalers, subresource: status}
- {group: certificates.k8s.io, resource: certificatesigningrequests}
- {group: certificates.k8s.io, resource: certificatesigningrequests, subresource: approval}
- {group: certificates.k8s.io, resource: certificatesigningrequests, subresource: status}
- {group: resource.k8s.io, resource: resourceclaims}
- {group: resource.k8s.io, resource: resourceclaimtemplates}
- {group: example.com, resource: widgets}
- {group: example.com, resource: widgets, subresource: status}
- {group: example.com, resource: gadgets}
- {group: example.com, resource: gadgets, subresource: status}
- {group: example.com, resource: gadgets, subresource: scale}
`

// tableCRDs are widgets, whose unknown fields are kept, and gadgets, whose two versions are converted by a webhook.
const tableCRDs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "{url}", caBundle: "{ca}"}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {text: {type: string}, replicas: {type: integer}}}, status: {type: object, properties: {ok: {type: boolean}, replicas: {type: integer}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: number}, replicas: {type: integer}}}, status: {type: object, properties: {ok: {type: boolean}, replicas: {type: integer}}}}
`

// tablePolicies are what ada may do. She has no permission by RBAC.
const tablePolicies = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-reads}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules:
  - {verbs: [get, list, watch], apiGroups: [""], resources: [configmaps, secrets, serviceaccounts, persistentvolumeclaims, services, limitranges, endpoints, pods, namespaces, persistentvolumes]}
  - {verbs: [get, list, watch], apiGroups: [apps], resources: [deployments, statefulsets]}
  - {verbs: [get, list, watch], apiGroups: [batch], resources: [jobs, cronjobs]}
  - {verbs: [get, list, watch], apiGroups: [networking.k8s.io], resources: [networkpolicies, ingresses]}
  - {verbs: [get, list, watch], apiGroups: [coordination.k8s.io], resources: [leases]}
  - {verbs: [get, list, watch], apiGroups: [rbac.authorization.k8s.io], resources: [roles]}
  - {verbs: [get, list, watch], apiGroups: [policy], resources: [poddisruptionbudgets]}
  - {verbs: [get, list, watch], apiGroups: [autoscaling], resources: [horizontalpodautoscalers]}
  - {verbs: [get, list, watch], apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests]}
  - {verbs: [get, list, watch], apiGroups: [example.com], resources: [widgets, gadgets]}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-writes}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules:
  - {verbs: [create, update, patch], apiGroups: [""], apiVersions: [v1], resources: [configmaps, secrets, serviceaccounts, persistentvolumeclaims, services, limitranges, pods, namespaces, persistentvolumes]}
  - {verbs: [update, patch], apiGroups: [""], apiVersions: [v1], resources: [persistentvolumeclaims/status, services/status, pods/status, pods/resize, namespaces/status, namespaces/finalize, persistentvolumes/status]}
  - {verbs: [create, update, patch], apiGroups: [apps], apiVersions: [v1], resources: [deployments, statefulsets, replicasets]}
  - {verbs: [update, patch], apiGroups: [apps], apiVersions: [v1], resources: [deployments/status]}
  - {verbs: [create, update, patch], apiGroups: [batch], apiVersions: [v1], resources: [cronjobs]}
  - {verbs: [update, patch], apiGroups: [batch], apiVersions: [v1], resources: [cronjobs/status]}
  - {verbs: [create, update, patch], apiGroups: [networking.k8s.io], apiVersions: [v1], resources: [networkpolicies]}
  - {verbs: [create, patch], apiGroups: [networking.k8s.io], apiVersions: [v1], resources: [ingresses]}
  - {verbs: [create, update, patch], apiGroups: [coordination.k8s.io], apiVersions: [v1], resources: [leases]}
  - {verbs: [create, update, patch], apiGroups: [rbac.authorization.k8s.io], apiVersions: [v1], resources: [roles]}
  - {verbs: [create, update, patch], apiGroups: [policy], apiVersions: [v1], resources: [poddisruptionbudgets]}
  - {verbs: [create, update, patch], apiGroups: [autoscaling], apiVersions: [v2], resources: [horizontalpodautoscalers, horizontalpodautoscalers/status]}
  - {verbs: [create, update, patch], apiGroups: [certificates.k8s.io], apiVersions: [v1], resources: [certificatesigningrequests]}
  - {verbs: [update, patch], apiGroups: [certificates.k8s.io], apiVersions: [v1], resources: [certificatesigningrequests/approval]}
  - {verbs: [create, update, patch], apiGroups: [example.com], apiVersions: [v1], resources: [widgets, widgets/status]}
  - {verbs: [create, update, patch], apiGroups: [example.com], apiVersions: [v2], resources: [gadgets, gadgets/status]}
  condition: >-
    object.metadata.?labels["team"].orValue("") == "blue" &&
    (oldObject == null || oldObject.metadata.?labels["team"].orValue("") == "blue")
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-deletes}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules:
  - {verbs: [delete, deletecollection], apiGroups: [""], apiVersions: [v1], resources: [configmaps, secrets, serviceaccounts, persistentvolumeclaims, services, limitranges, pods, namespaces, persistentvolumes]}
  - {verbs: [delete, deletecollection], apiGroups: [apps], apiVersions: [v1], resources: [deployments, statefulsets, replicasets]}
  - {verbs: [delete, deletecollection], apiGroups: [batch], apiVersions: [v1], resources: [cronjobs]}
  - {verbs: [delete, deletecollection], apiGroups: [networking.k8s.io], apiVersions: [v1], resources: [networkpolicies]}
  - {verbs: [delete, deletecollection], apiGroups: [coordination.k8s.io], apiVersions: [v1], resources: [leases]}
  - {verbs: [delete, deletecollection], apiGroups: [rbac.authorization.k8s.io], apiVersions: [v1], resources: [roles]}
  - {verbs: [delete, deletecollection], apiGroups: [policy], apiVersions: [v1], resources: [poddisruptionbudgets]}
  - {verbs: [delete, deletecollection], apiGroups: [autoscaling], apiVersions: [v2], resources: [horizontalpodautoscalers]}
  - {verbs: [delete, deletecollection], apiGroups: [certificates.k8s.io], apiVersions: [v1], resources: [certificatesigningrequests]}
  - {verbs: [delete, deletecollection], apiGroups: [example.com], apiVersions: [v1], resources: [widgets]}
  - {verbs: [delete, deletecollection], apiGroups: [example.com], apiVersions: [v2], resources: [gadgets]}
  condition: oldObject.metadata.?labels["team"].orValue("") == "blue"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-scales}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules:
  - {verbs: [update, patch], apiGroups: [apps], apiVersions: [v1], resources: [deployments/scale, statefulsets/scale]}
  - {verbs: [update, patch], apiGroups: [example.com], apiVersions: [v2], resources: [gadgets/scale]}
  condition: object.spec.replicas <= 3
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-tokens}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [serviceaccounts/token], resourceNames: [s]}]
  condition: object.spec.audiences == ["vault"]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-binds}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [pods/binding]}]
  condition: object.target.name == "node-1"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-debugs}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules:
  - {verbs: [update, patch], apiGroups: [""], apiVersions: [v1], resources: [pods/ephemeralcontainers]}
  - {verbs: [create, get], apiGroups: [""], apiVersions: [v1], resources: [pods/exec, pods/attach, pods/portforward, pods/eviction]}
  condition: object.spec.?ephemeralContainers.orValue([]).all(c, c.image.startsWith("debug:"))
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-approves}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [approve], apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [example.com/clients]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-widgets-v2}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [create, update, patch], apiGroups: [example.com], apiVersions: [v2], resources: [widgets]}]
  condition: object.spec.size <= 2.5 && object.spec.unknown.a[0] == 1.5 && object.spec.unknown.a[2].b == 9007199254740993
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-gadgets-v1}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [create, update, patch, delete], apiGroups: [example.com], apiVersions: [v1], resources: [gadgets]}]
  condition: (object == null || object.spec.text == "2.5") && (oldObject == null || oldObject.spec.text == "2.5")
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-jobs}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [create], apiGroups: [batch], apiVersions: [v1], resources: [jobs]}]
  condition: namespaceObject.metadata.?labels["tier"].orValue("") == "dev"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-no-update-of-ingresses}
spec:
  effect: Deny
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [update], apiGroups: [networking.k8s.io], resources: [ingresses]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-endpoints}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [endpoints]}]
  condition: request.labelSelector.requirements.size() == 0 && object.metadata.name == "a"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ada-quotas}
spec:
  effect: Allow
  subjects: [{kind: User, name: ada}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [resourcequotas]}]
  condition: object.metadata.name == "a"
`
