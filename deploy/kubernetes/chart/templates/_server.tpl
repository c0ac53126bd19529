{{/* Environment of a server, by the same arguments as drover.server. */}}
{{- define "drover.serverEnv" -}}
{{- $postgresql := .ctx.Values.postgresql -}}
- name: DROVER_NATS_URL
  value: {{ include "drover.natsUrl" .ctx | quote }}
- name: DROVER_NATS_CA
  value: /run/drover/ca.pem
- name: DROVER_NATS_CREDENTIALS
  value: /run/drover/nats.creds
- name: DROVER_DATABASE_URL
  value: {{ include "drover.databaseUrl" . | quote }}
- name: DROVER_DATABASE_PASSWORD_FILE
  value: /run/drover/postgres-password
- name: DROVER_DATABASE_WAIT_SECS
  value: {{ $postgresql.waitSeconds | quote }}
{{ include "drover.commonEnv" . }}
{{- with .env }}
{{ . }}
{{- end }}
{{- end -}}

{{/* The database's address with the role of a server, whose password is in a file. */}}
{{- define "drover.databaseUrl" -}}
{{- $postgresql := .ctx.Values.postgresql -}}
{{- $role := .role | replace "-" "_" -}}
{{- $ca := ternary "/run/postgresql/ca.pem" "/run/drover/ca.pem" (ne $postgresql.ca.secret "") -}}
{{- printf "postgres://drover_%s@%s:%d/%s?sslmode=%s&sslrootcert=%s" $role $postgresql.host (int64 $postgresql.port) $postgresql.database $postgresql.sslmode $ca -}}
{{- end -}}

{{/* The Deployment of a server. Takes ctx, role, values (those of the role) and, where the role has them, env (YAML of
environment variables), ports (YAML of ports beside that of health), preStopSleepSeconds and autoscaled. */}}
{{- define "drover.server" -}}
{{- $ctx := .ctx -}}
{{- $values := .values -}}
{{- $postgresql := $ctx.Values.postgresql -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "drover.fullname" $ctx }}-{{ .role }}
  namespace: {{ $ctx.Release.Namespace }}
  labels:
    {{- include "drover.labels" . | nindent 4 }}
spec:
  {{- if not .autoscaled }}
  replicas: {{ $values.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  progressDeadlineSeconds: 600
  # A new pod is up for five seconds before an old one goes, so that of a crash loop only one pod is ever affected.
  minReadySeconds: 5
  selector:
    matchLabels:
      {{- include "drover.selectorLabels" . | nindent 6 }}
  # One pod more, and never one less. Where one pod works and the others stand by, the new pod joins as a standby before an
  # old one ends. Which of the old ones ends first is Kubernetes' choice, so the lease changes hands once or twice. A
  # standby takes it within a second after nobody listens in the holder's place; commands that come meanwhile are sent again
  # by their senders, with the same request id, and take effect once.
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  template:
    metadata:
      labels:
        {{- include "drover.podLabels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .role }}
        {{- with $ctx.Values.secretsRevision }}
        drover/secrets-revision: {{ . | quote }}
        {{- end }}
        {{- with $ctx.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "drover.fullname" $ctx }}-{{ .role }}
      automountServiceAccountToken: false
      # Variables of Services would be called DROVER_…, as the program's own settings are.
      enableServiceLinks: false
      # Services end in order within 15 seconds, after the pause of the preStop hook where there is one.
      terminationGracePeriodSeconds: {{ add 25 (default 0 .preStopSleepSeconds) }}
      {{- with $ctx.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $ctx.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $ctx.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      tolerations:
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: {{ $ctx.Values.failedNodeSeconds }}}
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: {{ $ctx.Values.failedNodeSeconds }}}
        {{- with $ctx.Values.tolerations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      affinity:
        {{- include "drover.affinity" $ctx | nindent 8 }}
      # Pods of one version are counted among themselves, or those of the old one would push the new ones aside during an
      # update. Machines with taints that a pod does not tolerate do not count as empty.
      topologySpreadConstraints:
        - topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: {{ $ctx.Values.topologySpread.zone }}
          maxSkew: 1
          nodeTaintsPolicy: Honor
          labelSelector:
            matchLabels:
              {{- include "drover.selectorLabels" . | nindent 14 }}
          matchLabelKeys: [pod-template-hash]
        - topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: {{ $ctx.Values.topologySpread.hostname }}
          maxSkew: 1
          nodeTaintsPolicy: Honor
          labelSelector:
            matchLabels:
              {{- include "drover.selectorLabels" . | nindent 14 }}
          matchLabelKeys: [pod-template-hash]
      securityContext:
        runAsNonRoot: true
        {{- with $ctx.Values.runAsUser }}
        runAsUser: {{ int64 . }}
        {{- end }}
        {{- with $ctx.Values.runAsGroup }}
        runAsGroup: {{ int64 . }}
        fsGroup: {{ int64 . }}
        {{- end }}
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ .role }}
          image: {{ include "drover.image" (dict "ctx" $ctx "image" $ctx.Values.image) | quote }}
          imagePullPolicy: {{ $ctx.Values.image.pullPolicy }}
          args: [{{ .role }}]
          env:
            {{- $env := include "drover.serverEnv" . }}
            {{- $env | nindent 12 }}
            {{- with include "drover.extraEnv" (dict "own" $env "extra" $values.env) | trim }}
            {{- . | nindent 12 }}
            {{- end }}
          ports:
            {{- with .ports }}
            {{- . | nindent 12 }}
            {{- end }}
            - {name: health, containerPort: 4650, protocol: TCP}
          {{- include "drover.startupProbe" $ctx | nindent 10 }}
          # A minute without an answer: a process that is busy for long is not one that hangs, and /live does not ask
          # whether NATS or PostgreSQL are there.
          livenessProbe:
            httpGet: {path: /live, port: health, scheme: HTTP}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          {{- include "drover.readinessProbe" $ctx | nindent 10 }}
          {{- with .preStopSleepSeconds }}
          # New connections still come for a moment after the pod was told to end: it serves them, and then ends.
          lifecycle:
            preStop:
              sleep: {seconds: {{ . }}}
          {{- end }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            privileged: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: drover, mountPath: /run/drover, readOnly: true}
            {{- if $postgresql.ca.secret }}
            - {name: postgresql-ca, mountPath: /run/postgresql, readOnly: true}
            {{- end }}
      volumes:
        # Keys are named one by one: where one is missing, the pod's events say which.
        - name: drover
          secret:
            secretName: {{ $values.secret }}
            defaultMode: 288 # 0440
            items:
              - {key: nats.creds, path: nats.creds}
              - {key: postgres-password, path: postgres-password}
              - {key: ca.pem, path: ca.pem}
        {{- with $postgresql.ca.secret }}
        - name: postgresql-ca
          secret:
            secretName: {{ . }}
            defaultMode: 288 # 0440
            items:
              - {key: {{ $postgresql.ca.key }}, path: ca.pem}
        {{- end }}
{{- end -}}
