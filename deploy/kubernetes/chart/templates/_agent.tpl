{{/* Environment of the agent. Takes ctx. */}}
{{- define "drover.agentEnv" -}}
- name: DROVER_NATS_URL
  value: {{ include "drover.natsUrl" .ctx | quote }}
- name: DROVER_NATS_CA
  value: /run/drover/ca.pem
- name: DROVER_NATS_NODE_KEY
  value: /run/drover/node.key
{{ include "drover.commonEnv" . }}
- name: DROVER_AGENT_DATA_DIR
  value: {{ .ctx.Values.agent.dataDir | quote }}
- name: DROVER_NODE_NAME
  valueFrom:
    fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}
- name: DROVER_NODE_REGION
  value: {{ .ctx.Values.region | quote }}
- name: DROVER_NODE_DATACENTER
  value: {{ .ctx.Values.agent.datacenter | quote }}
- name: DROVER_NODE_POOL
  value: {{ .ctx.Values.agent.nodePool | quote }}
{{- with .ctx.Values.agent.nodeClass }}
- name: DROVER_NODE_CLASS
  value: {{ . | quote }}
{{- end }}
{{- with .ctx.Values.agent.meta }}
{{- $pairs := list }}
{{- range $name, $value := . }}
{{- $pairs = append $pairs (printf "%s=%s" $name $value) }}
{{- end }}
- name: DROVER_NODE_META
  value: {{ join "," $pairs | quote }}
{{- end }}
- name: DROVER_NODE_HTTP_ADDRESS
  value: {{ default (printf "%s-api.%s.svc:%d" (include "drover.fullname" .ctx) .ctx.Release.Namespace (int64 .ctx.Values.api.service.port)) .ctx.Values.agent.httpAddress | quote }}
- name: DROVER_DYNAMIC_PORTS
  value: {{ .ctx.Values.agent.dynamicPorts | quote }}
- name: DROVER_RESERVED_PORTS
  value: {{ .ctx.Values.agent.reservedPorts | quote }}
# What the node offers is what Kubernetes has given to the pod, not what the machine has.
- name: DROVER_MEMORY_TOTAL_MB
  valueFrom:
    resourceFieldRef: {containerName: agent, resource: limits.memory, divisor: 1Mi}
- name: DROVER_RESERVED_MEMORY_MB
  value: {{ .ctx.Values.agent.reservedMemoryMB | quote }}
- name: DROVER_CPU_TOTAL_COMPUTE
  {{- if .ctx.Values.agent.cpuTotalCompute }}
  value: {{ int64 .ctx.Values.agent.cpuTotalCompute | quote }}
  {{- else }}
  valueFrom:
    resourceFieldRef: {containerName: agent, resource: requests.cpu, divisor: 1m}
  {{- end }}
{{- if .ctx.Values.agent.rawExec }}
- name: DROVER_RAW_EXEC
  value: "true"
{{- end }}
- name: DROVER_STOP_TASKS_ON_EXIT
  value: "true"
{{- end -}}
