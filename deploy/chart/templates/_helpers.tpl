{{- define "dovetail.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "dovetail.leaseName" -}}
{{ dig "leaderElection" "leaseName" "dovetail" .Values.config }}
{{- end }}

{{- /* The configuration file: what is switched on has its keys, and `config` wins. */ -}}
{{- define "dovetail.config" -}}
{{- $made := dict -}}
{{- if .Values.api.enabled -}}
{{- $files := dict "tlsCertFile" "/etc/dovetail-api-tls/tls.crt" "tlsKeyFile" "/etc/dovetail-api-tls/tls.key" -}}
{{- $made = set $made "api" (set $files "bindAddress" ":8443") -}}
{{- end -}}
{{- if .Values.secureMetrics.enabled -}}
{{- $files := dict "tlsCertFile" "/etc/dovetail-metrics-tls/tls.crt" "tlsKeyFile" "/etc/dovetail-metrics-tls/tls.key" -}}
{{- $made = set $made "metrics" $files -}}
{{- end -}}
{{- mergeOverwrite $made (deepCopy .Values.config) | toYaml -}}
{{- end }}
