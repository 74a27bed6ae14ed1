"""Names are equal as they are for TiDB, which takes the lower case of each character alone."""

from __future__ import annotations

import sys
from hashlib import sha256

import pytest

from ticdc_assets.names.folding import fold

GO_UNICODE_15 = "f4944fbf8c952a5676c9b57b7707fa77b2238f620c41f6cce6f180532afe52f7"
"""Of a line `code lower\\n` in hexadecimal digits for each character that Go's unicode.ToLower changes, as Go 1.26 has
them (Unicode 15.0.0)."""


def test_every_character_of_unicode_has_the_lower_case_of_go():
    lines = [
        f"{code:x} {ord(lower):x}\n" for code in range(sys.maxunicode + 1) if (lower := fold(chr(code))) != chr(code)
    ]

    assert len(lines) == 1433
    assert sha256("".join(lines).encode()).hexdigest() == GO_UNICODE_15


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("Orders", "orders"),
        ("İŞLEM", "işlem"),
        ("ΟΔΟΣ", "οδοσ"),
        ("οδος", "οδος"),
        ("Σ", "σ"),
        ("ΑΣ Σ_Σ", "ασ σ_σ"),
        ("I\u0307", "i\u0307"),
        ("STRASSE", "strasse"),
        ("Straße", "straße"),
        ("ẞ", "ß"),
        ("ǅ", "ǆ"),
        ("K", "k"),
        ("ſ", "ſ"),
        ("ı", "ı"),
        ("ÜRÜN\ue000数", "ürün\ue000数"),
    ],
)
def test_a_name_is_folded_character_by_character(name, folded):
    assert fold(name) == folded
