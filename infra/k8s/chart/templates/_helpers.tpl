{{- /* What every pod of ours shares. */}}

{{- define "hirl.labels" -}}
app.kubernetes.io/part-of: hirl-scale
{{- end }}

{{- define "hirl.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Services by domain share their domains, so they may have several processes. The others have one
state for the cluster: of several processes one has all the work, so one, and never two at a time.
The collector is in no consumer group, and two would publish every sample twice. */}}
{{- define "hirl.services" -}}
collector: {replicas: 1, token: true}
aggregator: {replicas: {{ .Values.replicas.aggregator }}, byDomain: true}
forecaster: {replicas: 1}
commander: {replicas: 1}
soldier: {replicas: {{ .Values.replicas.soldier }}, byDomain: true}
breaker: {replicas: {{ .Values.replicas.breaker }}, byDomain: true}
{{- if eq .Values.source "kubernetes" }}
actuator: {replicas: {{ .Values.replicas.actuator }}, byDomain: true, token: true}
provisioner: {replicas: {{ ternary 1 0 .Values.room.enabled }}, token: true}
{{- else }}
# Nothing to write to: whoever has a target gives them processes.
actuator: {replicas: 0, byDomain: true, token: true}
provisioner: {replicas: 0, token: true}
{{- end }}
{{- end }}

{{- define "hirl.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: kernels, mountPath: /var/cache/hirl}
  - {name: files, mountPath: /etc/hirl/files, readOnly: true}
  - {name: kafka-ca, mountPath: /etc/hirl/kafka, readOnly: true}
  {{- if eq .Values.source "kubernetes" }}
  - {name: domains, mountPath: /etc/hirl/domains, readOnly: true}
  {{- end }}
{{- end }}

{{- define "hirl.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 16Mi}
# The image has kernels. Only where they do not fit the CPU they are compiled, into here.
- name: kernels
  emptyDir: {sizeLimit: 256Mi}
# Your cluster.yaml, queries.yaml, inventory.yaml, pools.yaml.
- name: files
  configMap: {name: hirl-files, optional: true}
# ca.crt of a private authority of the brokers; HIRL_KAFKA_CA names it.
- name: kafka-ca
  secret: {secretName: {{ .Values.kafka.caSecret }}, optional: true}
{{- if eq .Values.source "kubernetes" }}
# Domains of ScalingDomains, which the collector writes.
- name: domains
  configMap: {name: hirl-domains, optional: true}
{{- end }}
{{- end }}

{{- define "hirl.probes" -}}
# Imports take seconds before the first answer, and the broker may still be starting.
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
# As patient as the kit's silence_seconds.
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{- define "hirl.settings" -}}
{{- $own := dict
  "HIRL_KAFKA_BOOTSTRAP" .Values.kafka.bootstrap
  "HIRL_KAFKA_SECURITY" .Values.kafka.security
  "HIRL_KAFKA_MECHANISM" .Values.kafka.mechanism
  "HIRL_METRICS_HOST" "0.0.0.0"
  "HIRL_METRICS_PORT" "8080"
  "HIRL_LOG_LEVEL" "info"
  "HIRL_COLLECTOR_SOURCE" .Values.source
  "HIRL_COLLECTOR_URL" .Values.prometheus.url
  "HIRL_ACTUATOR_MODE" .Values.mode }}
{{- if eq .Values.source "kubernetes" }}
{{- /* The API server gives up on a write after 2 s, and a withdrawal waits for twice of it. */}}
{{- $own = merge $own (dict
  "HIRL_ACTUATOR_TARGET_KIND" "kubernetes"
  "HIRL_ACTUATOR_TIMEOUT_SECONDS" "2"
  "HIRL_SOLDIER_VERTICAL" (toString .Values.vertical)
  "HIRL_DOMAINS" "/etc/hirl/domains/domains.yaml"
  "HIRL_COLLECTOR_DOMAINS" (printf "%s/hirl-domains" .Release.Namespace)
  "HIRL_PROVISIONER_MODE" .Values.room.mode
  "HIRL_PROVISIONER_NAMESPACE" .Values.room.namespace) }}
{{- end }}
{{- if and .Values.vertical (eq .Values.source "kubernetes") }}
{{- $_ := set $own "HIRL_ACTUATOR_SIZES" (printf "%s/hirl-sizes" .Release.Namespace) }}
{{- $_ := set $own "HIRL_COLLECTOR_SIZES" (printf "%s/hirl-sizes" .Release.Namespace) }}
{{- end }}
{{- $files := dict "INVENTORY" "inventory" "QUERIES" "queries" "POOLS" "pools" }}
{{- range $setting, $file := $files }}
{{- if index $.Values.files $file }}
{{- $_ := set $own (printf "HIRL_COLLECTOR_%s" $setting) (printf "/etc/hirl/files/%s.yaml" $file) }}
{{- end }}
{{- end }}
{{- if .Values.files.cluster }}
{{- range $name := keys (include "hirl.services" . | fromYaml) }}
{{- $_ := set $own (printf "HIRL_%s_CLUSTER" (upper $name)) "/etc/hirl/files/cluster.yaml" }}
{{- end }}
{{- end }}
{{- merge (deepCopy .Values.settings) $own | toYaml }}
{{- end }}
