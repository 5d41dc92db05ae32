#!/usr/bin/env bash
# Starts the broker of the locally built image, as the official image does: KAFKA_FOO_BAR=x becomes foo.bar=x (two
# underscores give one, three give a dash), the storage is formatted when it is new.
set -euo pipefail

settings=/opt/kafka/config/server.properties
{
    while IFS='=' read -r -d '' name value; do
        case "$name" in
        KAFKA_OPTS | KAFKA_HEAP_OPTS | KAFKA_LOG4J_* | KAFKA_JVM_PERFORMANCE_OPTS) ;;
        KAFKA_*)
            name="${name#KAFKA_}"
            name="${name//___/-}"
            name="${name//__/$'\x01'}"
            name="${name//_/.}"
            name="${name//$'\x01'/_}"
            printf '%s=%s\n' "${name,,}" "$value"
            ;;
        esac
    done < <(env -0)
    [ -n "${KAFKA_LOG_DIRS:-}" ] || printf 'log.dirs=/var/lib/kafka/data\n'
    [ -n "${KAFKA_NODE_ID:-}${KAFKA_BROKER_ID:-}" ] || printf 'node.id=1\n'
} >"$settings"

java_options=(-Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -cp '/opt/kafka/libs/*')
java -Xmx128m "${java_options[@]}" kafka.tools.StorageTool format --ignore-formatted \
    -t "${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}" -c "$settings"
read -r -a heap <<<"${KAFKA_HEAP_OPTS:--Xmx512m -Xms256m}"
read -r -a more <<<"${KAFKA_OPTS:-}"
exec java "${heap[@]}" "${more[@]}" "${java_options[@]}" kafka.Kafka "$settings"
