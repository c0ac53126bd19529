{{/* Names, labels and images. */}}

{{/* The chart's name as a label. */}}
{{- define "drover.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The first part of all names. Forty characters leave room for the longest role, so that names and labels stay within
63. */}}
{{- define "drover.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The servers' roles that run as Deployments, and the key of each in the values, as a map. Those whose key is not `api`
or `scheduler` work one at a time. */}}
{{- define "drover.serverRoles" -}}
api: api
deployment-watcher: deploymentWatcher
eval-broker: evalBroker
node-tracker: nodeTracker
plan-applier: planApplier
scheduler: scheduler
{{- end -}}

{{/* Labels that select the release's pods. They never change: selectors are immutable. */}}
{{- define "drover.releaseLabels" -}}
app.kubernetes.io/name: {{ include "drover.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels that select the pods of a role. Takes ctx and role. */}}
{{- define "drover.selectorLabels" -}}
{{ include "drover.releaseLabels" .ctx }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{/* Labels of pods: those of the selector, and what may change with a new version, which restarts pods anyway. */}}
{{- define "drover.podLabels" -}}
{{ include "drover.selectorLabels" . }}
app.kubernetes.io/part-of: drover
app.kubernetes.io/version: {{ .ctx.Chart.AppVersion | replace "+" "_" | quote }}
{{- with .ctx.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of objects. Takes ctx, and role where the object belongs to one. */}}
{{- define "drover.labels" -}}
{{ include "drover.releaseLabels" .ctx }}
{{- with .role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/part-of: drover
app.kubernetes.io/version: {{ .ctx.Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .ctx.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .ctx.Chart.Name .ctx.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .ctx.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image's full name. Takes ctx and image (repository, tag, digest). */}}
{{- define "drover.image" -}}
{{- $name := .image.repository -}}
{{- with .ctx.Values.image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .ctx.Chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The namespace of the agents. */}}
{{- define "drover.agentNamespace" -}}
{{- default .Release.Namespace .Values.agent.namespace -}}
{{- end -}}

{{/* Peers of a NetworkPolicy in another namespace than the release's: one that names pods alone means those of the
release's namespace. Takes ctx and peers. */}}
{{- define "drover.peersFromElsewhere" -}}
{{- $here := dict "matchLabels" (dict "kubernetes.io/metadata.name" .ctx.Release.Namespace) -}}
{{- $peers := list -}}
{{- range .peers -}}
{{- if or (hasKey . "ipBlock") (hasKey . "namespaceSelector") -}}
{{- $peers = append $peers . -}}
{{- else -}}
{{- $peers = append $peers (merge (dict "namespaceSelector" $here) .) -}}
{{- end -}}
{{- end -}}
{{- toYaml $peers -}}
{{- end -}}
