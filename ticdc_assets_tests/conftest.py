"""Servers that several folders of tests use, each started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ticdc_assets_tests.services.jars import missing_tools
from ticdc_assets_tests.services.kafka import KafkaServer, kafka_server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A Kafka broker; the tests that use it are skipped where it cannot be started."""
    missing = missing_tools("java", "mvn", "openssl")
    if missing:
        pytest.skip(f"not on this machine: {', '.join(missing)}")
    with kafka_server(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic that no other test uses: tests of several files may have one name, and share the broker."""
    return "".join(c if c.isalnum() else "_" for c in request.node.nodeid)[-200:]
