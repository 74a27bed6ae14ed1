from collections.abc import Iterator

import pytest

from ticdc_assets_tests.deliveries.memory_lake import small_and_cheap


@pytest.fixture
def cheap() -> Iterator[None]:
    with small_and_cheap():
        yield
