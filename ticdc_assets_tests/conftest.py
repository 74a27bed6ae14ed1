"""What a plain run of `pytest` leaves out, and servers that several folders of tests use, each started once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from ticdc_assets_tests.services.jars import missing_tools
from ticdc_assets_tests.services.kafka import KafkaServer, kafka_server


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `long` all but N cases of a test with the mark `variants(N)`. Those N are spread over all its cases."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("variants") and not item.get_closest_marker("matrix"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_test in cases.values():
        marker = of_test[0].get_closest_marker("variants")
        count = marker.args[0] if marker else len(of_test)
        chosen = {len(of_test) * number // count for number in range(count)}
        for number, item in enumerate(of_test):
            if number not in chosen:
                item.add_marker(pytest.mark.long)


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
