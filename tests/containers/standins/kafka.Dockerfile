# Stands in for apache/kafka where no registry can be reached: the same jars and the same set-up by
# environment variables, on another base.
FROM python:3.11-slim
COPY jre /opt/java
COPY libs /opt/kafka/libs
COPY kafka-run /etc/kafka/docker/run
COPY configs /etc/kafka/docker
ENV PATH=/opt/java/bin:$PATH
RUN groupadd -g 1000 appuser && useradd -u 1000 -g 1000 appuser \
    && mkdir -p /opt/kafka/config /opt/kafka/logs /mnt/shared/config /var/lib/kafka/data \
    && chmod 755 /etc/kafka/docker/run \
    && chown -R appuser:appuser /opt/kafka/config /opt/kafka/logs /var/lib/kafka /mnt/shared/config
USER appuser
VOLUME /var/lib/kafka/data
WORKDIR /opt/kafka/logs
CMD ["/etc/kafka/docker/run"]
