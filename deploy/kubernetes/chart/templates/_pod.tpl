{{/* Parts of pods that servers and agents share. */}}

{{/* Where a pod may run: on machines with an architecture that there is an image for. */}}
{{- define "drover.affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: kubernetes.io/os, operator: In, values: [linux]}
          - key: kubernetes.io/arch
            operator: In
            values:
              {{- toYaml .Values.architectures | nindent 14 }}
{{- end -}}

{{/* Addresses of NATS, by names that are the same in every namespace. */}}
{{- define "drover.natsUrl" -}}
{{- default (printf "tls://nats.%s.svc:4222" .Release.Namespace) .Values.nats.url -}}
{{- end -}}

{{/* Settings of logs, health and telemetry by environment variable. Takes ctx. */}}
{{- define "drover.commonEnv" -}}
- name: DROVER_LOG_LEVEL
  value: {{ .ctx.Values.log.level | quote }}
- name: DROVER_LOG_FORMAT
  value: {{ .ctx.Values.log.format | quote }}
- name: DROVER_HEALTH_ADDR
  value: {{ printf "%s:4650" .ctx.Values.listenAddress | quote }}
{{- with .ctx.Values.otlp.endpoint }}
- name: POD_NAME
  valueFrom:
    fieldRef: {apiVersion: v1, fieldPath: metadata.name}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}
- name: POD_NODE_NAME
  valueFrom:
    fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.namespace.name=$(POD_NAMESPACE),k8s.pod.name=$(POD_NAME),k8s.node.name=$(POD_NODE_NAME)
{{- if not $.ctx.Values.otlp.metrics }}
- name: OTEL_METRICS_EXPORTER
  value: none
{{- end }}
{{- with $.ctx.Values.otlp.tracesSampler }}
- name: OTEL_TRACES_SAMPLER
  value: {{ . }}
{{- end }}
{{- with $.ctx.Values.otlp.tracesSamplerArg }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Settings that a person added to a role's env. Takes extra (a map) and own (YAML of the variables that the chart sets
by itself, which have values of their own). */}}
{{- define "drover.extraEnv" -}}
{{- $own := list -}}
{{- range .own | fromYamlArray }}{{ $own = append $own .name }}{{ end -}}
{{- range $name, $value := .extra -}}
{{- if has $name $own }}{{ fail (printf "%s cannot be set in env: the chart sets it from a value of its own" $name) }}{{ end }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* The startup probe: a process has two minutes before the liveness probe counts. */}}
{{- define "drover.startupProbe" -}}
startupProbe:
  httpGet: {path: /live, port: health, scheme: HTTP}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 60
{{- end -}}

{{/* The readiness probe. */}}
{{- define "drover.readinessProbe" -}}
readinessProbe:
  httpGet: {path: /ready, port: health, scheme: HTTP}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 3
{{- end -}}
