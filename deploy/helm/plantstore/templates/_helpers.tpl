{{/* The name of all objects: that of the release, with "plantstore" in it. With "-admin" it has at most 63 characters. */}}
{{- define "plantstore.name" -}}
{{- $name := .Release.Name | replace "." "-" }}
{{- if not (contains "plantstore" $name) }}{{ $name = printf "%s-plantstore" (trunc 46 $name) }}{{ end }}
{{- trunc 57 $name }}
{{- end }}

{{/* The labels of the pods of this release, which never change. */}}
{{- define "plantstore.selector" -}}
app.kubernetes.io/name: plantstore
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "plantstore.labels" -}}
{{ include "plantstore.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "plantstore.image" -}}
{{- $image := .Values.image }}
{{- $repository := required "image.repository is empty: set it to the image in your registry" $image.repository }}
{{- if $image.digest }}{{ $repository }}@{{ $image.digest }}
{{- else }}{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "plantstore.scheme" -}}
{{ if .Values.tls.enabled }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* The spec of a claim for a store in a file. */}}
{{- define "plantstore.claim" -}}
accessModes: [{{ .Values.embedded.accessMode }}]
{{- with .Values.embedded.storageClass }}
storageClassName: {{ quote . }}
{{- end }}
resources:
  requests:
    storage: {{ .Values.embedded.size }}
{{- end }}

{{/* Fails with a message for values that the schema accepts and that contradict each other. */}}
{{- define "plantstore.validate" -}}
{{- $url := .Values.postgres.url }}
{{- if eq .Values.store "postgres" }}
  {{- if not $url }}
    {{- fail "postgres.url is empty: set it to the address of the database, or store to embedded" }}
  {{- end }}
  {{- if not (regexMatch "^postgres(ql)?://" $url) }}
    {{- fail "postgres.url must begin with postgres://" }}
  {{- end }}
  {{- if or (regexMatch "^[a-z]+://[^/?@]*:[^/?]*@" $url) (regexMatch "[?&]password=" $url) }}
    {{- fail "postgres.url has a password, which every user who can read pods would see: put it into postgres.passwordSecret" }}
  {{- end }}
{{- else if or $url .Values.postgres.passwordSecret .Values.postgres.caSecret }}
  {{- fail "postgres has values, but store is embedded: set store to postgres, or remove them" }}
{{- end }}
{{- if .Values.embedded.standby }}
  {{- if eq .Values.store "postgres" }}
    {{- fail "embedded.standby is set, but store is postgres: use postgres.replicas" }}
  {{- end }}
  {{- if not (hasPrefix "s3://" (index .Values.settings "backup-dir" | default "" | toString)) }}
    {{- fail "embedded.standby needs settings.backup-dir with a bucket, from which the second pod receives the plants" }}
  {{- end }}
  {{- if not (index .Values.settings "failover") }}
    {{- fail "embedded.standby needs settings.failover, the time after which the second pod takes over, such as 10s" }}
  {{- end }}
{{- end }}
{{- if and .Values.tls.enabled (not .Values.tls.secret) }}
  {{- fail "tls.secret is empty: name a Secret of the type kubernetes.io/tls, or set tls.enabled to false" }}
{{- end }}
{{- range list "db" "listen" "admin-listen" "tls-cert" "tls-key" "insecure-listen" "standby" }}
  {{- if hasKey $.Values.settings . }}
    {{- fail (printf "settings.%s is set by the chart: use store, embedded, postgres, tls or service" .) }}
  {{- end }}
{{- end }}
{{- range $name, $_ := .Values.env }}
  {{- if hasPrefix "PLANTSTORE_" $name }}
    {{- fail (printf "env.%s: use settings, and secrets for files with secrets" $name) }}
  {{- end }}
  {{- if regexMatch "PASSWORD|SECRET|ACCESS_KEY|TOKEN$|HEADERS" $name }}
    {{- fail (printf "env.%s may have a secret, which every user who can read pods would see: use secrets" $name) }}
  {{- end }}
{{- end }}
{{- if .Values.serviceMonitor.enabled }}
  {{- if not .Values.serviceMonitor.tokenSecret }}
    {{- fail "serviceMonitor.tokenSecret is empty: /metrics requires a token with the scope metrics" }}
  {{- end }}
  {{- if not .Values.networkPolicy.admin }}
    {{- fail "networkPolicy.admin is empty: name the peers of Prometheus, which reads the admin listener" }}
  {{- end }}
{{- end }}
{{- end }}
