"""The effect of each TiCDC option: honoured, shown by the stream, accepted with a limit, refused, or no effect.

There is one entry for each configuration key and each sink URI parameter in TiCDC's servers and documents (tiflow
c7b2588, and the new architecture up to 8.5.7). Any other key causes a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ticdc_assets.config.model.sink import STORAGE_OPTIONS


class Decision(StrEnum):
    """The effect of an option."""

    HONOURED = "honoured"
    SHOWN = "shown by the stream"
    LIMIT = "accepted with a limit"
    REFUSED = "refused, always or under conditions"
    NO_EFFECT = "no effect on the tables"


@dataclass(frozen=True, slots=True)
class TicdcOption:
    """One option of TiCDC: a path in its configuration, or a parameter of a sink URI."""

    name: str
    decision: Decision
    sentence: str


def _options(decision: Decision, sentence: str, *names: str) -> dict[str, TicdcOption]:
    return {name: TicdcOption(name, decision, sentence) for name in names}


def _below(section: str, names: str) -> list[str]:
    return [f"{section}.{name}" for name in names.split()]


_OF_DEBEZIUM: Final = (
    "include-start-ts", "decimal-handling-mode", "bigint-unsigned-handling-mode", "binary-handling-mode",
)  # fmt: skip
_KAFKA: Final = "sink.kafka-config"
_CODEC: Final = f"{_KAFKA}.codec-config"
_PULSAR: Final = "sink.pulsar-config"
_STORAGE: Final = "sink.cloud-storage-config"
_LOGIN_ONLY: Final = "How TiCDC logs in. This project's login is `source.kafka.security` and `source.kafka.options`."
_SPEED: Final = "How fast TiCDC works, and with how much memory and how many workers."
_DATABASE_SINK: Final = "Only for a sink that is a database."

OPTIONS: Final[Mapping[str, TicdcOption]] = {
    # -- honoured
    **_options(
        Decision.HONOURED,
        "Decides how names and folders are read.",
        "case-sensitive",
        "sink.date-separator",
        "sink.file-index-digit",
        "sink.file-index-width",
        f"{_STORAGE}.use-table-id-as-path",
        "scheduler.enable-table-across-nodes",
    ),
    **_options(
        Decision.HONOURED,
        "Decides how records are read.",
        "sink.protocol",
        "sink.terminator",
        "sink.open.output-old-value",
        "sink.debezium.output-old-value",
        "sink.debezium.binary-handling-mode",
        "sink.debezium.decimal-handling-mode",
        "sink.only-output-updated-columns",
        "sink.content-compatible",
        "sink.delete-only-output-handle-key-columns",
        "integrity.integrity-check-level",
        f"{_CODEC}.enable-tidb-extension",
        f"{_CODEC}.avro-enable-watermark",
        *_below("sink.csv", "delimiter quote null include-commit-ts binary-encoding-method output-old-value"),
        *_below("sink.csv", "output-handle-key output-field-header"),
        *_below(f"{_KAFKA}.large-message-handle", "large-message-handle-option large-message-handle-compression"),
        *_below(f"{_KAFKA}.large-message-handle", "claim-check-storage-uri claim-check-raw-value"),
    ),
    **_options(
        Decision.HONOURED,
        "Names the topics, and how many partitions each has. `target-schema` and `target-table` give the names that "
        "the stream and so the tables have.",
        "sink.dispatchers.topic",
        "sink.dispatchers.target-schema",
        "sink.dispatchers.target-table",
        f"{_KAFKA}.partition-num",
    ),
    **_options(Decision.HONOURED, "The registry that Avro messages are read with.", "sink.schema-registry"),
    **_options(
        Decision.HONOURED,
        "Used to log in to Kafka. `source.kafka` overrides it.",
        *_below(_KAFKA, "sasl-user sasl-password sasl-mechanism enable-tls"),
    ),
    **_options(
        Decision.HONOURED,
        "Of servers before 7.2. `false` is read as `open.output-old-value = false`: rows of the Open Protocol have no "
        "old values. Other protocols are not changed by it.",
        "enable-old-value",
    ),
    # -- shown by the stream
    **_options(
        Decision.SHOWN,
        "The decoder detects it from the bytes. A word that TiCDC does not know is refused.",
        f"{_CODEC}.encoding-format",
        f"{_CODEC}.avro-decimal-handling-mode",
        f"{_CODEC}.avro-bigint-unsigned-handling-mode",
        "sink.debezium.bigint-unsigned-handling-mode",
    ),
    **_options(
        Decision.SHOWN,
        "The decoder detects it from the bytes.",
        f"{_CODEC}.output-row-key",
        "sink.debezium-disable-schema",
        "sink.debezium.include-start-ts",
        "sink.simple.include-start-ts",
        f"{_STORAGE}.output-column-id",
    ),
    # -- limits
    **_options(
        Decision.LIMIT,
        "A column that it leaves out is NULL in the tables. At a row that lacks another column its table stops. "
        "Refused together with `target-schema` and `target-table`.",
        "sink.column-selectors.matcher",
        "sink.column-selectors.columns",
    ),
    **_options(
        Decision.LIMIT,
        "The tables lack the changes that it leaves out.",
        "filter.ignore-txn-start-ts",
        *_below("filter.event-filters", "matcher ignore-event ignore-sql ignore-insert-value-expr"),
        *_below("filter.event-filters", "ignore-update-new-value-expr ignore-update-old-value-expr"),
        *_below("filter.event-filters", "ignore-delete-value-expr ignore-update-only-columns"),
    ),
    **_options(
        Decision.LIMIT,
        "Rows that TiCDC wrote to this cluster from another one are not in the stream, and so not in the tables.",
        "bdr-mode",
    ),
    **_options(
        Decision.LIMIT,
        "`false` lets TiCDC overwrite files of partitioned tables: changes may be missing from the stream itself.",
        "sink.enable-partition-separator",
    ),
    **_options(
        Decision.LIMIT,
        "TiCDC removes files of that age: a changefeed that runs less often loses their changes.",
        f"{_STORAGE}.file-expiration-days",
    ),
    **_options(
        Decision.LIMIT,
        "0 and 1 let Kafka lose messages that TiCDC counts as sent: changes may be missing from the stream itself.",
        f"{_KAFKA}.required-acks",
    ),
    **_options(
        Decision.LIMIT,
        "0 or less sends no BOOTSTRAP messages: a table older than the changefeed waits for its next statement, or for "
        "`schema_files`.",
        "sink.send-bootstrap-interval-in-sec",
        "sink.send-bootstrap-in-msg-count",
    ),
    # -- refused, wholly or with others
    **_options(
        Decision.REFUSED,
        "Soft-deleted rows are marked by columns that this project does not read.",
        "enable-active-active",
    ),
    **_options(
        Decision.REFUSED,
        "Refused without old values and without commit_ts: updates of keys could leave old rows or remove new ones.",
        *(f"sink.{sink}-config.output-raw-change-event" for sink in ("kafka", "pulsar", "cloud-storage")),
    ),
    **_options(
        Decision.REFUSED,
        "Refused without `enable-tidb-extension`: a DELETE could not be distinguished from an UPDATE.",
        f"{_CODEC}.avro-include-before-value",
    ),
    **_options(
        Decision.REFUSED,
        "Refused where rows or deletes have no commit_ts: `ts`, `columns` and `index-value` with `index` spread the "
        "changes of one key over partitions, and nothing else orders them.",
        *_below("sink.dispatchers", "partition dispatcher index columns"),
    ),
    **_options(
        Decision.REFUSED,
        "Refused with the Avro protocol: AWS Glue's registry frames messages in another way. Other "
        "protocols do not use a registry.",
        *_below(f"{_KAFKA}.glue-schema-registry-config", "registry-name region access-key secret-access-key token"),
    ),
    # -- no effect
    **_options(
        Decision.NO_EFFECT,
        "Which tables TiCDC sends. Other tables have no lake tables.",
        "filter.rules",
        "filter.ddl-allow-list",
        "force-replicate",
        "ignore-ineligible-table",
        "sink.dispatchers.matcher",
        *_below("filter", "do-dbs do-tables ignore-dbs ignore-tables"),
    ),
    **_options(
        Decision.NO_EFFECT,
        _SPEED,
        "memory-quota",
        "performance-mode",
        "event-collector-batch-count",
        "event-collector-batch-bytes",
        "mounter.worker-num",
        "sink.encoder-concurrency",
        "sink.enable-kafka-sink-v2",
        "sink.advance-timeout-in-sec",
        "sink.advance-timeout",
        "sink.transaction-atomicity",
        f"{_CODEC}.max-batch-size",
        f"{_STORAGE}.worker-count",
        *_below(_STORAGE, "flush-interval file-size flush-concurrency spool-disk-quota spool-base-dir"),
        *_below("scheduler", "region-threshold region-per-span region-count-per-span region-count-refresh-interval"),
        *_below("scheduler", "write-key-threshold scheduling-task-count-per-node scheduling-task-per-node type"),
        *_below("scheduler", "enable-splittable-check force-split balance-score-threshold polling-time"),
        *_below("scheduler", "min-traffic-percentage max-traffic-percentage"),
    ),
    **_options(
        Decision.NO_EFFECT,
        "How TiCDC monitors itself and its checkpoints.",
        "check-gc-safe-point",
        "enable-table-monitor",
        "changefeed-error-stuck-duration",
        *_below("synced-status", "synced-check-interval checkpoint-interval"),
        "integrity.corruption-handle-level",
    ),
    **_options(
        Decision.NO_EFFECT,
        "Statements come in TiDB's own form, whatever mode they were parsed in.",
        "sql-mode",
    ),
    **_options(
        Decision.NO_EFFECT,
        "When BOOTSTRAP messages are sent, and to which partitions: all are read, and rows wait "
        "for the message of their table.",
        "sink.send-bootstrap-to-all-partition",
        "sink.send-all-bootstrap-at-start",
    ),
    **_options(
        Decision.NO_EFFECT,
        "When TiCDC removes old files: see `file-expiration-days`.",
        f"{_STORAGE}.file-cleanup-cron-spec",
    ),
    **_options(
        Decision.NO_EFFECT,
        "TiCDC's own copy of the option of that name at the top.",
        "sink.case-sensitive",
        "sink.force-replicate",
        "sink.integrity",
    ),
    **_options(
        Decision.NO_EFFECT,
        "How messages are sent. Messages of any size and compression are read.",
        *_below(_KAFKA, "replication-factor kafka-version max-message-bytes compression kafka-client-id"),
        *_below(_KAFKA, "auto-create-topic dial-timeout write-timeout read-timeout"),
    ),
    **_options(
        Decision.NO_EFFECT,
        _LOGIN_ONLY,
        *_below(_KAFKA, "ca cert key insecure-skip-verify sasl-gssapi-auth-type sasl-gssapi-keytab-path"),
        *_below(_KAFKA, "sasl-gssapi-kerberos-config-path sasl-gssapi-service-name sasl-gssapi-user"),
        *_below(_KAFKA, "sasl-gssapi-password sasl-gssapi-realm sasl-gssapi-disable-pafxfast sasl-oauth-client-id"),
        *_below(_KAFKA, "sasl-oauth-client-secret sasl-oauth-token-url sasl-oauth-scopes sasl-oauth-grant-type"),
        *_below(_KAFKA, "sasl-oauth-audience"),
    ),
    **_options(
        Decision.NO_EFFECT,
        _DATABASE_SINK,
        "enable-sync-point",
        "sync-point-interval",
        "sync-point-retention",
        "sink.safe-mode",
        "consistent",
        "sink.mysql-config",
        "active-active-progress-interval",
        "active-active-sync-stats-interval",
    ),
    **_options(
        Decision.NO_EFFECT,
        "Only for a sink that this project does not read; the sink URI's scheme is refused.",
        *_below(_PULSAR, "authentication-token token-from-file basic-user-name basic-password oauth2 send-timeout"),
        *_below(_PULSAR, "auth-tls-certificate-path auth-tls-private-key-path tls-key-file-path tls-certificate-file"),
        *_below(_PULSAR, "tls-trust-certs-file-path pulsar-producer-cache-size pulsar-version compression-type"),
        *_below(_PULSAR, "connection-timeout operation-timeout batching-max-messages batching-max-publish-delay"),
        "sink.iceberg-config",
        "sink.outbox",
    ),
}
"""The options by path. The path of a section covers everything below it."""

SECTIONS: Final = frozenset(name[:end] for name in OPTIONS for end, character in enumerate(name) if character == ".")
"""Paths of sections that contain options."""


def option_at(path: str) -> TicdcOption | None:
    """The option at a kebab-case path of the configuration; None if TiCDC has none there."""
    while path:
        if path in OPTIONS:
            return OPTIONS[path]
        path = path.rpartition(".")[0]
    return None


def _like(section: str, names: str) -> dict[str, TicdcOption]:
    """Sink URI parameters with the meaning of the option of the same name in a section."""
    return {name: OPTIONS[f"{section}.{name}"] for name in names.split()}


PARAMETERS: Final[Mapping[str, TicdcOption]] = {
    **_like("sink", "protocol transaction-atomicity schema-registry only-output-updated-columns content-compatible"),
    **_like("sink", "debezium-disable-schema"),
    **_like(_KAFKA, "partition-num replication-factor kafka-version max-message-bytes compression kafka-client-id"),
    **_like(_KAFKA, "auto-create-topic dial-timeout write-timeout read-timeout required-acks ca cert key enable-tls"),
    **_like(_KAFKA, "insecure-skip-verify sasl-user sasl-password sasl-mechanism sasl-gssapi-auth-type"),
    **_like(_KAFKA, "sasl-gssapi-keytab-path sasl-gssapi-kerberos-config-path sasl-gssapi-service-name"),
    **_like(_KAFKA, "sasl-gssapi-user sasl-gssapi-password sasl-gssapi-realm sasl-gssapi-disable-pafxfast"),
    **_like(_KAFKA, "output-raw-change-event"),
    **_like(_CODEC, "enable-tidb-extension max-batch-size avro-decimal-handling-mode avro-enable-watermark"),
    **_like(_CODEC, "avro-bigint-unsigned-handling-mode avro-include-before-value encoding-format output-row-key"),
    **_like(_STORAGE, "worker-count flush-interval file-size use-table-id-as-path spool-disk-quota"),
    **{f"debezium-{name}": OPTIONS[f"sink.debezium.{name}"] for name in _OF_DEBEZIUM},
    "simple-include-start-ts": OPTIONS["sink.simple.include-start-ts"],
    **_options(Decision.HONOURED, "Opens the store. `source.options` may name others.", *sorted(STORAGE_OPTIONS)),
    **_options(
        Decision.NO_EFFECT,
        "How TiCDC writes files into the store.",
        "acl",
        "predefined-acl",
        "storage-class",
        "access-tier",
        "sse",
        "sse-kms-key-id",
        "encryption-scope",
        "encryption-key",
        "use-accelerate-endpoint",
    ),
}
"""The parameters of a sink URI by name."""
