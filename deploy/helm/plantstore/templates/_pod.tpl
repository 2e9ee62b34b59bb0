{{/* The template of the pods, for both stores. */}}
{{- define "plantstore.pod" -}}
{{- $postgres := eq .Values.store "postgres" -}}
{{- $standby := .Values.embedded.standby -}}
metadata:
  labels:
    {{- include "plantstore.labels" . | nindent 4 }}
  annotations:
    checksum/settings: {{ toYaml .Values.settings | sha256sum }}
spec:
  serviceAccountName: {{ include "plantstore.name" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ quote . }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  # A shutdown lasts up to 10 s, after the sleep of preStop.
  terminationGracePeriodSeconds: 30
  {{- if or $postgres $standby }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: DoNotSchedule
      labelSelector:
        matchLabels:
          {{- include "plantstore.selector" . | nindent 10 }}
      {{- if $postgres }}
      matchLabelKeys: [pod-template-hash]
      {{- end }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "plantstore.selector" . | nindent 10 }}
      {{- if $postgres }}
      matchLabelKeys: [pod-template-hash]
      {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: plantstore
      image: {{ include "plantstore.image" . | quote }}
      args: [serve]
      env:
        {{- include "plantstore.env" . | nindent 8 }}
      ports:
        - name: public
          containerPort: 8080
        - name: admin
          containerPort: 8081
      # The admin listener opens after the migration of the store, for which the server has an hour.
      startupProbe:
        httpGet: {path: /livez, port: admin, scheme: {{ include "plantstore.scheme" . }}}
        periodSeconds: 2
        timeoutSeconds: 3
        failureThreshold: 1800
      readinessProbe:
        httpGet: {path: /readyz, port: admin, scheme: {{ include "plantstore.scheme" . }}}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      # Not /readyz: a restart does not repair an unreachable database.
      livenessProbe:
        httpGet: {path: /livez, port: admin, scheme: {{ include "plantstore.scheme" . }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      {{- if $postgres }}
      # The server accepts connections until the Service does not route to the pod any more.
      lifecycle:
        preStop:
          sleep:
            seconds: 5
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        {{- include "plantstore.mounts" . | nindent 8 }}
  volumes:
    {{- include "plantstore.volumes" . | nindent 4 }}
{{- end }}

{{- define "plantstore.env" -}}
{{- $postgres := eq .Values.store "postgres" -}}
- name: PLANTSTORE_CONFIG
  value: /etc/plantstore/settings/plantstore.yaml
- name: PLANTSTORE_DB
  value: {{ if $postgres }}{{ .Values.postgres.url | quote }}{{ else }}/data/plantstore.db{{ end }}
- name: PLANTSTORE_LISTEN
  value: ":8080"
- name: PLANTSTORE_ADMIN_LISTEN
  value: ":8081"
{{- if .Values.tls.enabled }}
- name: PLANTSTORE_TLS_CERT
  value: /etc/plantstore/tls/tls.crt
- name: PLANTSTORE_TLS_KEY
  value: /etc/plantstore/tls/tls.key
{{- else }}
- name: PLANTSTORE_INSECURE_LISTEN
  value: "true"
{{- end }}
{{- if .Values.embedded.standby }}
- name: PLANTSTORE_STANDBY # true for the second pod, whose index is 1
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
{{- end }}
{{- if $postgres }}
# A mode in the URL has precedence.
- name: PGSSLMODE
  value: verify-full
{{- if .Values.postgres.caSecret }}
- name: PGSSLROOTCERT
  value: /etc/plantstore/postgres-ca/ca.crt
{{- end }}
{{- if .Values.postgres.passwordSecret }}
- name: PGPASSFILE
  value: /etc/plantstore/postgres/pgpass
{{- end }}
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ quote $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "plantstore.mounts" -}}
- {name: settings, mountPath: /etc/plantstore/settings, readOnly: true}
{{- if eq .Values.store "embedded" }}
- {name: data, mountPath: /data}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /etc/plantstore/tls, readOnly: true}
{{- end }}
{{- if .Values.postgres.passwordSecret }}
- {name: postgres, mountPath: /etc/plantstore/postgres, readOnly: true}
{{- end }}
{{- if .Values.postgres.caSecret }}
- {name: postgres-ca, mountPath: /etc/plantstore/postgres-ca, readOnly: true}
{{- end }}
{{- range $index, $name := .Values.secrets }}
- {name: secret-{{ $index }}, mountPath: {{ printf "/etc/plantstore/secrets/%s" $name | quote }}, readOnly: true}
{{- end }}
{{- end }}

{{/* Each Secret is readable for the group of the server, fsGroup, and not for others. */}}
{{- define "plantstore.volumes" -}}
- name: settings
  configMap:
    name: {{ include "plantstore.name" . }}
{{- if and (eq .Values.store "embedded") (not .Values.embedded.standby) }}
- name: data
  persistentVolumeClaim:
    claimName: {{ include "plantstore.name" . }}
{{- end }}
{{- if .Values.tls.enabled }}
- name: tls
  secret: {secretName: {{ quote .Values.tls.secret }}, defaultMode: 0440}
{{- end }}
{{- if .Values.postgres.passwordSecret }}
- name: postgres
  secret: {secretName: {{ quote .Values.postgres.passwordSecret }}, defaultMode: 0440}
{{- end }}
{{- if .Values.postgres.caSecret }}
- name: postgres-ca
  secret: {secretName: {{ quote .Values.postgres.caSecret }}, defaultMode: 0440}
{{- end }}
{{- range $index, $name := .Values.secrets }}
- name: secret-{{ $index }}
  secret: {secretName: {{ quote $name }}, defaultMode: 0440}
{{- end }}
{{- end }}
