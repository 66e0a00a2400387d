# Stands in for prom/prometheus: Debian's program and busybox for wget.
FROM python:3.11-slim
COPY prometheus /bin/prometheus
COPY busybox /bin/wget
RUN mkdir /prometheus && chown 65534:65534 /prometheus
USER 65534:65534
VOLUME /prometheus
ENTRYPOINT ["/bin/prometheus"]
