# The store has a file system of 4 MiB, so that the page can fill it. Prometheus and a collector run.
mkdir -p /var/lib/plantstore
mount -t tmpfs -o size=4m tmpfs /var/lib/plantstore
. ./runbook.sh
chown prometheus: /etc/prometheus/plantstore.token
block monitor-and-alert.md /etc/prometheus/prometheus.yml
install -m 644 /home/reader/plantstore/deploy/prometheus/plantstore.yml /etc/prometheus/plantstore.yml
systemctl start prometheus
systemd-run --quiet --unit otelcol /opt/docs-test/bin/otelcol --config 'yaml:
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:4318"}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
'
