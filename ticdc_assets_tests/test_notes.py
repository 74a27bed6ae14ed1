"""Notes of tables: codes for programs, texts for people, and the texts of records of earlier versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ticdc_assets.advice import BY_CODE, Advice
from ticdc_assets.errors import DecodeError
from ticdc_assets.notes import WARNINGS, Note, NoteCode, from_text, of_codes, shown

NOTES = [
    (Note(NoteCode.MESSAGES, "a hole; put it back."),),
    (Note(NoteCode.LATE_STATEMENT, "shop.t: one came later."),),
    (Note(NoteCode.PASSED_UNREAD, "expected its files."), Note(NoteCode.MIRROR, "damaged; rebuild it.")),
    (Note(NoteCode.MIRROR, "damaged."),),
    (Note(NoteCode.UNKNOWN, "a file is missing; wait."),),
    (Note(NoteCode.UNKNOWN, "a file."), Note(NoteCode.SCHEMA_CHECKSUM, "schema_1: not the checksum of its name")),
    (),
]


@pytest.mark.parametrize("notes", NOTES, ids=lambda notes: shown(notes, ""))
def test_a_record_of_an_earlier_version_is_read_from_its_text(notes: tuple[Note, ...]):
    assert from_text(shown(notes, "shop.t"), is_held=True) == notes


def test_a_text_of_a_table_that_goes_on_is_a_warning():
    found = from_text("older than the stream; its mirror: damaged", is_held=False)

    assert found == (Note(NoteCode.COLUMNS, "older than the stream"), Note(NoteCode.MIRROR, "damaged"))
    assert [note.is_warning for note in found] == [True, False]


def test_notes_of_a_code_are_found_and_codes_of_newer_versions_hold_their_table():
    notes = (Note("of tomorrow", "new"), Note(NoteCode.MIRROR, "damaged"))

    assert of_codes(notes, NoteCode.MIRROR) == (notes[1],)
    assert not notes[0].is_warning


def test_the_note_of_an_error_has_its_advice_apart_where_it_is_a_known_remedy():
    known = DecodeError("a.csv", "a row", "half of one", Advice.RESTORE_FILE)
    own = DecodeError("a.csv", "a row", "half of one", "Ask somebody.")

    assert Note.of(NoteCode.INPUT, known, "shop.t") == Note(
        NoteCode.INPUT, "shop.t: a.csv: expected a row, found half of one.", (Advice.RESTORE_FILE,)
    )
    assert Note.of(NoteCode.INPUT, known).text("shop.t") == str(known)
    assert Note.of(NoteCode.INPUT, own) == Note(NoteCode.INPUT, str(own))


def test_advice_names_the_table_and_follows_what_was_found():
    advice = (Advice.LOST_STATEMENT, Advice.REBUILD_FROM_SOURCE)

    for detail in ("found a column", "found a column."):
        assert Note(NoteCode.INPUT, detail, advice).text("shop.t") == (
            f"found a column. {Advice.LOST_STATEMENT} `ticdc-assets rebuild --table shop.t --from source` reads it "
            "again. Where `upstream` is set, `ticdc-assets resync shop.t` copies it from TiDB."
        )


def test_each_remedy_has_a_sentence_of_its_own():
    assert len(BY_CODE) == len(Advice.__members__)
    assert all(advice.endswith((".", ":")) for advice in Advice)


def test_the_page_on_bad_input_has_every_code_with_its_remedy():
    page = (Path(__file__).parents[1] / "docs" / "bad-input.md").read_text()
    section = page.partition("## What a held table needs")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE))

    assert listed == {str(code) for code in NoteCode}
    assert WARNINGS < set(NoteCode)
