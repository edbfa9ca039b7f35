{{- /* These templates put the values into an object. Each has the name of a kind, and changes the object in place. */}}

{{- define "proviso.values.APIService" }}
{{- if .root.Values.tls.certManager.enabled }}
{{-   $_ := unset .object.spec "caBundle" }}
{{-   $_ := set .object.metadata "annotations" (dict "cert-manager.io/inject-ca-from" (printf "%s/%s" .object.spec.service.namespace "proviso-apiserver")) }}
{{- else }}
{{-   $ca := required "tls.ca must have the CA of the serving certificate, unless tls.certManager.enabled is true" .root.Values.tls.ca }}
{{-   $_ := set .object.spec "caBundle" (b64enc $ca) }}
{{- end }}
{{- end }}

{{- define "proviso.values.Deployment" }}
{{- $values := .root.Values }}
{{- $pod := .object.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- with $values.image }}
{{-   $_ := set $container "image" (printf "%s:%s" .repository (.tag | default $.root.Chart.AppVersion)) }}
{{-   if .digest }}{{ $_ := set $container "image" (printf "%s@%s" .repository .digest) }}{{ end }}
{{- end }}
{{- $_ := set $container "resources" $values.resources }}
{{- range $field := list "priorityClassName" "nodeSelector" "tolerations" }}
{{-   $_ := unset $pod $field }}
{{-   with get $values $field }}{{ $_ := set $pod $field . }}{{ end }}
{{- end }}
{{- $secrets := dict "tls" $values.tls.secretName }}
{{- if $values.ha.enabled }}
{{-   $_ := set $secrets "etcd" $values.ha.etcdSecretName }}
{{-   $_ := set .object.spec "replicas" $values.ha.replicas }}
{{-   range $container.env }}
{{-     if eq .name "ETCD_SERVERS" }}{{ $_ := set . "value" (join "," $values.ha.etcdServers) }}{{ end }}
{{-   end }}
{{- end }}
{{- range $pod.volumes }}
{{-   if .configMap }}{{ $_ := set .configMap "name" (get $.names .configMap.name) }}{{ end }}
{{-   if hasKey $secrets .name }}{{ $_ := set .secret "secretName" (get $secrets .name) }}{{ end }}
{{- end }}
{{- $args := list }}
{{- range $container.args }}
{{-   if hasPrefix "--webhook-allowed-names=" . }}
{{-     $args = append $args (printf "--webhook-allowed-names=%s" (join "," $values.frontDoor.allowedNames)) }}
{{-   else }}
{{-     $args = append $args . }}
{{-   end }}
{{- end }}
{{- $_ := set $container "args" (concat $args $values.extraArgs) }}
{{- end }}

{{- define "proviso.values.NetworkPolicy" }}
{{- with .root.Values.networkPolicy.egress }}{{ $_ := set $.object.spec "egress" . }}{{ end }}
{{- end }}

{{- define "proviso.values.Namespace" }}
{{- with get (.root.Values.persistence.annotations | default dict) "helm.sh/resource-policy" }}
{{-   include "proviso.merge" (dict "object" $.object "patch" (dict "metadata" (dict "annotations" (dict "helm.sh/resource-policy" .)))) }}
{{- end }}
{{- end }}

{{- define "proviso.values.PersistentVolumeClaim" }}
{{- $persistence := .root.Values.persistence }}
{{- $_ := set .object.spec.resources.requests "storage" $persistence.size }}
{{- with $persistence.storageClassName }}{{ $_ := set $.object.spec "storageClassName" . }}{{ end }}
{{- with $persistence.annotations }}{{ $_ := set $.object.metadata "annotations" . }}{{ end }}
{{- end }}

{{- define "proviso.values.ServiceMonitor" }}
{{- $_ := set (index .object.spec.endpoints 0).tlsConfig.ca.secret "name" .root.Values.tls.secretName }}
{{- end }}
