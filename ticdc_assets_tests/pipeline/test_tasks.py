"""What workers report of records that cannot be decoded."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.tasks import QuarantineEntry
from ticdc_assets.sources.capture import Message


@pytest.mark.parametrize(("key", "value", "raw"), [(b"k", b"v", b"v"), (b"k", None, b"k"), (None, None, b"")])
def test_a_message_that_cannot_be_decoded_is_kept_with_its_value_or_its_key(
    key: bytes | None, value: bytes | None, raw: bytes
):
    message = Message("feed", 1, 7, key, value, 0)

    found = QuarantineEntry.of_message(message, DecodeError("here", "JSON", "another", "Look."))

    assert (found.path, found.line, found.raw) == ("feed/1", 7, raw)
