{{- /* The sections of all pages: [path, title of the page, heading, anchor, text]. */ -}}
{{- $sections := slice -}}
{{- range site.Pages -}}
  {{- $page := . -}}
  {{- $path := strings.TrimPrefix "/" .RelPermalink | default "index.html" -}}
  {{- $title := partialCached "title.html" . .RelPermalink -}}
  {{- $content := .Content -}}
  {{- if eq .Layout "document" }}{{ $content = partial "document.html" . }}{{ end -}}
  {{- range $n, $part := split $content "<h2 " -}}
    {{- $anchor := "" -}}
    {{- $heading := "" -}}
    {{- if $n -}}
      {{- $anchor = replaceRE `(?s)^id="([^"]*)".*$` "$1" $part -}}
      {{- $heading = replaceRE `(?s)^[^>]*>(.*?)</h2>.*$` "$1" $part | plainify | htmlUnescape -}}
      {{- $heading = strings.TrimSuffix " #" $heading -}}
      {{- $part = replaceRE `(?s)^.*?</h2>` "" $part -}}
    {{- end -}}
    {{- $text := replaceRE `(?s)<h1.*?</h1>|<a class="anchor".*?</a>` "" $part | plainify | htmlUnescape -}}
    {{- $sections = $sections | append (slice (slice $path $title $heading $anchor (trim (replaceRE `\s+` " " $text) " "))) -}}
  {{- end -}}
{{- end -}}
searchIndex = {{ $sections | jsonify (dict "noHTMLEscape" true) }}
