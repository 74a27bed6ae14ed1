"""Keys of TiCDC that look misspelt or lossy give a warning; those that do not matter give none."""

from __future__ import annotations

import pytest

from ticdc_assets.config import read_sink


@pytest.mark.parametrize(
    ("uri", "config", "words"),
    [
        ("file:///x?protocol=csv", {"sink": {"date-seperator": "none"}}, "sink.date-separator"),
        ("file:///x?protocol=csv", {"sink": {"csv": {"include-comit-ts": True}}}, "sink.csv.include-commit-ts"),
        ("file:///x?protocol=csv", {"csv": {"quote": "'"}}, "sink.csv"),
        ("file:///x?protocol=csv", {"date-separator": "none"}, "sink.date-separator"),
        ("kafka://h/t?protocol=open", {"sink": {"large-message-handle": {}}}, "sink.kafka-config.large-message-handle"),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extention=true", {}, "enable-tidb-extension"),
        ("file:///x?protocol=csv&date-separator=none", {}, "sink.date-separator"),
        ("kafka://h/t?protocol=open", {"sink": {"protocol": "avro"}}, "sink_uri wins"),
        ("file:///x?protocol=csv", {"sink": {"enable-partition-separator": False}}, "overwrite"),
    ],
)
def test_what_looks_misspelt_or_lossy_gives_one_warning(uri, config, words):
    _, warnings = read_sink(uri, config)

    assert len(warnings) == 1
    assert words in warnings[0]


def test_ticdc_keys_that_do_not_matter_give_no_warning():
    config = {
        "memory-quota": 1,
        "enable-old-value": True,
        "enable-sync-point": False,
        "sync-point-interval": "10m",
        "bdr-mode": False,
        "sql-mode": "",
        "mounter": {"worker-num": 16},
        "filter": {"rules": ["*.*"]},
        "consistent": {"level": "none", "storage": "", "compression": "lz4"},
        "scheduler": {"enable-table-across-nodes": False, "region-threshold": 1, "write-key-threshold": 0},
        "changefeed-error-stuck-duration": "30m",
        "sink": {
            "transaction-atomicity": "none",
            "column-selectors": [],
            "encoder-concurrency": 16,
            "enable-kafka-sink-v2": False,
            "safe-mode": True,
            "advance-timeout-in-sec": 150,
            "send-bootstrap-interval-in-sec": 120,
            "send-bootstrap-in-msg-count": 1000,
            "send-bootstrap-to-all-partition": True,
            "kafka-config": {
                "partition-num": 6,
                "kafka-version": "2.4.0",
                "compression": "lz4",
                "required-acks": -1,
                "enable-tls": True,
                "codec-config": {"max-batch-size": 16, "avro-include-before-value": True},
            },
            "cloud-storage-config": {
                "worker-count": 8,
                "flush-interval": "5s",
                "file-size": 67108864,
                "file-expiration-days": 0,
                "file-cleanup-cron-spec": "0 0 2 * * *",
                "flush-concurrency": 1,
                "spool-disk-quota": 1,
            },
            "pulsar-config": {"authentication-token": "x"},
            "mysql-config": {"worker-count": 16},
        },
    }
    uri = "kafka://h/t?protocol=open-protocol&kafka-version=2.4.0&partition-num=6&max-message-bytes=1&replication-factor=1"

    assert read_sink(uri, config)[1] == ()
