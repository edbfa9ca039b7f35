{{- /*
The objects of the chart are the manifests of artifacts/, in the folder manifests of the chart. These templates apply the kustomizations beside
them, as far as they need it: resources, configMapGenerator, and patches that append to a list, delete an object or merge with it. A test compares
the result with the one of kustomize.
*/}}

{{- /* proviso.components returns the folders of the components that the values enable, in order. */}}
{{- define "proviso.components" -}}
{{- $components := list }}
{{- range list
  (list "base" true)
  (list "overlays/ha" .Values.ha.enabled)
  (list "overlays/managed" .Values.managed.enabled)
  (list "barriers" (or .Values.barriers.enabled .Values.managed.enabled))
  (list "front-door" .Values.frontDoor.enabled)
  (list "inner-door" .Values.innerDoor.enabled)
  (list "monitoring" .Values.monitoring.enabled)
  (list "overlays/demo" .Values.demo.enabled)
  (list "without-authorization.k8s.io" (not .Values.authorizationK8sIO.enabled))
}}
{{-   if last . }}{{ $components = append $components (first .) }}{{ end }}
{{- end }}
{{- toJson $components }}
{{- end }}

{{- /* proviso.file returns the content of a manifest. */}}
{{- define "proviso.file" -}}
{{- required (printf "the chart has no file manifests/%s" .name) (.root.Files.Get (printf "manifests/%s" .name)) }}
{{- end }}

{{- /* proviso.configMap returns a generated ConfigMap. Its name ends with the hash of kustomize, so that pods start again when its content changes. */}}
{{- define "proviso.configMap" -}}
{{- $data := dict }}
{{- range .generator.files }}
{{-   $file := splitList "=" . | last }}
{{-   $content := index $.contents (printf "%s/%s" $.folder $file) }}
{{-   if not (kindIs "string" $content) }}
{{-     $content = include "proviso.file" (dict "root" $.root "name" (printf "%s/%s" $.folder $file)) }}
{{-   end }}
{{-   if $content }}{{ $_ := set $data (splitList "=" . | first | base) $content }}{{ end }}
{{- end }}
{{- $name := .generator.name }}
{{- $options := .generator.options | default dict }}
{{- if not $options.disableNameSuffixHash }}
{{-   $hash := dict "kind" "ConfigMap" "name" "" "data" $data | toJson | sha256sum | trunc 10 }}
{{-   $name = printf "%s-%s" $name ($hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t") }}
{{- end }}
{{- $metadata := dict "name" $name "namespace" .generator.namespace }}
{{- with $options.labels }}{{ $_ := set $metadata "labels" . }}{{ end }}
{{- dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data | toJson }}
{{- end }}

{{- /* proviso.append changes an object as the operation add of a JSON patch does whose path ends with a dash. */}}
{{- define "proviso.append" }}
{{- if or (ne .operation.op "add") (not (hasSuffix "/-" .operation.path)) }}
{{-   fail (printf "the chart does not support the patch %s %s" .operation.op .operation.path) }}
{{- end }}
{{- $keys := splitList "/" .operation.path | rest | initial }}
{{- $at := .object }}
{{- range initial $keys }}
{{-   $at = index $at (ternary (int .) . (kindIs "slice" $at)) }}
{{- end }}
{{- $_ := set $at (last $keys) (append (index $at (last $keys)) .operation.value) }}
{{- end }}

{{- /* proviso.merge changes an object as a strategic merge patch does: some lists by their keys, all other lists as a whole. */}}
{{- define "proviso.merge" }}
{{- range $field, $value := .patch }}
{{-   $old := get $.object $field }}
{{-   $key := get (dict "containers" "name" "env" "name" "volumes" "name" "volumeMounts" "mountPath") $field }}
{{-   if and (kindIs "map" $value) (kindIs "map" $old) }}
{{-     include "proviso.merge" (dict "object" $old "patch" $value) }}
{{-   else if and $key $old }}
{{-     $merged := dict }}
{{-     range $item := $old }}{{ $_ := set $merged (get $item $key) $item }}{{ end }}
{{-     $items := list }}
{{-     range $item := $value }}
{{-       $same := get $merged (get $item $key) }}
{{-       if get $item "$patch" }}{{ $_ := unset $merged (get $item $key) }}
{{-       else if $same }}{{ include "proviso.merge" (dict "object" $same "patch" $item) }}
{{-       else }}{{ $items = append $items $item }}
{{-       end }}
{{-     end }}
{{-     range $item := $old }}{{ if hasKey $merged (get $item $key) }}{{ $items = append $items $item }}{{ end }}{{ end }}
{{-     $_ := set $.object $field $items }}
{{-   else }}
{{-     $_ := set $.object $field $value }}
{{-   end }}
{{- end }}
{{- end }}
