"""Tokens of SQL text: their positions, invalid text, and the limits."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import tokens
from ticdc_assets.schema.ddl.token_cursor import cursor_over, statement_cursors
from ticdc_assets.schema.ddl.tokens import TEXT_CHARS_MAX, TokenKind, tokens_of


def read(text: str, restored: bool | None = False) -> list[tuple[str, str]]:
    return [(token.kind.value, token.text) for token in tokens_of(text, restored)]


TOKENS = [
    ("a `b``c` 'd''e' \"f\"\"g\"", [("word", "a"), ("quoted", "b`c"), ("string", "d'e"), ("string", 'f"g')]),
    ("N'x' n'y' X'0A' 0x1f B'01' 0b10", [
        ("string", "x"), ("string", "y"), ("hex", "0A"), ("hex", "1f"), ("bits", "01"), ("bits", "10"),
    ]),
    ("1 1.5 .5 1. 1e3 1E+3 1.5e-3", [("number", n) for n in ("1", "1.5", ".5", "1.", "1e3", "1E+3", "1.5e-3")]),
    ("1a 1e 0xg 0b2 é1 $a _b", [("word", w) for w in ("1a", "1e", "0xg", "0b2", "é1", "$a", "_b")]),
    (r"'\'\"\\\0\b\n\r\t\Z\%\_\q'", [("string", "'\"\\\0\b\n\r\t\x1a\\%\\_q")]),
    ("a-- b\n-c --\td\n--", [("word", "a"), ("symbol", "-"), ("word", "c")]),
    ("a--b # c\n/* d ' */e", [("word", "a"), *[("symbol", "-")] * 2, ("word", "b"), ("word", "e")]),
    ("/*! a */ /*!50100 b*/ /*!500 c*/ /*T! d */ /*T![x] e */", [
        ("word", "a"), ("word", "b"), ("number", "500"), ("word", "c"), ("word", "d"), ("word", "e"),
    ]),
    ("/*! /*T! a */ b */ c", [("word", "a"), ("word", "b"), ("word", "c")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TOKENS)
def test_a_text_is_split_into_tokens(text: str, expected: list[tuple[str, str]]):
    assert read(text) == expected


def test_a_backslash_of_a_restored_text_is_itself():
    assert read(r"'a\' 'b\\'''", restored=True) == [("string", "a\\"), ("string", r"b\\'")]


RESTORED = [
    (r"ALTER TABLE `t` COMMENT = 'a\\b'", True),
    (r"ALTER TABLE `T` COMMENT = 'a\\b' `c`", True),
    (r"ALTER TABLE t COMMENT = 'a\\b'", False),
    (r"alter table `t` COMMENT = 'a\\b'", False),
    (r"ALTER TABLE `t` comment = 'a\\b'", False),
    (r"ALTER `t` table COMMENT = 'a\\b'", False),
    ("ALTER TABLE `t`\n COMMENT = 'a\\\\b'", False),
    ("\nALTER TABLE `t` COMMENT = 'a\\\\b'", False),
    (r"ALTER TABLE `t` COMMENT = 'a\'", True),
    (r"ALTER TABLE t COMMENT = 'a\''", False),
    (r"alter table `t` COMMENT = 'a\''", False),
    (r"ALTER TABLE `t` comment = 'a\''", False),
    ("ALTER TABLE `t`\n COMMENT = 'a\\''", False),
    (r"ALTER TABLE `t` COMMENT = 'a\'''", True),
]


@pytest.mark.parametrize(("text", "is_restored"), RESTORED)
def test_a_text_with_backslashes_is_taken_for_restored_by_its_looks(text: str, is_restored: bool):
    """On one line, keywords in upper case, names in backticks."""
    assert read(text, None) == read(text, is_restored)


def test_a_token_tells_where_it_stands():
    assert [(token.start, token.end) for token in tokens_of("a /* b */ 'c' ;")] == [(0, 1), (10, 13), (14, 15)]


FAULTS = [
    ("a `b", 3, "the closing `", "no end of it"),
    ("'a", 1, "the closing '", "no end of it"),
    ('a "b', 3, 'the closing "', "no end of it"),
    ("a /* b", 3, "the closing */", "no end of it"),
    ("a */", 3, "SQL text", r"\*/"),
    ("a /*! b", 8, "the closing */", "the end of the text"),
    ("/*! a */ */", 10, "SQL text", r"\*/"),
    ("a \\", 3, "SQL text", "no end of it"),
]


@pytest.mark.parametrize(("text", "at", "expected", "found"), FAULTS)
def test_what_has_no_end_is_refused_where_it_begins(text: str, at: int, expected: str, found: str):
    with pytest.raises(SchemaError) as caught:
        read(text)

    assert caught.value.where == f"character {at} of the statement"
    assert caught.value.expected == expected
    assert caught.value.found == found.replace("\\", "")


DESCRIBED = [
    ("word", "the word word"),
    ("w" * 65, f"the word {'w' * 64}"),
    ("`secret`", "a quoted name"),
    ("'secret'", "a string literal"),
    ("4711", "a number literal"),
    ("x'11'", "a hex literal"),
    ("b'11'", "a bits literal"),
    (",", "','"),
    ("", "the end of the statement"),
]


@pytest.mark.parametrize(("text", "described"), DESCRIBED)
def test_a_fault_names_keywords_and_symbols_and_no_value(text: str, described: str):
    cursor = cursor_over(f"a {text}")
    cursor.take()

    assert cursor.fault("more").found == described
    assert cursor.fault("more").where == f"character {3 if text else 2} of the statement"


def test_a_text_may_be_so_long_and_no_longer():
    assert read(" " * TEXT_CHARS_MAX) == []
    with pytest.raises(SchemaError, match=f"{TEXT_CHARS_MAX + 1} characters"):
        read(" " * (TEXT_CHARS_MAX + 1))


def test_a_statement_may_have_so_many_words_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokens, "STATEMENT_TOKENS_MAX", 3)

    assert len(read("a b c; d e f")) == 7
    with pytest.raises(SchemaError, match="at most 3 words"):
        read("a b c; d e f g")


# -- the cursor --------------------------------------------------------------------------------------------------------


def test_a_cursor_stays_at_the_end():
    cursor = cursor_over("a b")

    assert [cursor.take().text for _ in range(3)] == ["a", "b", ""]
    assert cursor.take().kind is TokenKind.END
    assert cursor.peek(5).kind is TokenKind.END
    assert cursor.done
    cursor.finish()


def test_keywords_are_taken_all_or_none():
    cursor = cursor_over("if not exists x")

    assert not cursor.accept("IF", "EXISTS")
    assert cursor.position == 0
    assert cursor.accept("IF", "NOT", "EXISTS")
    assert cursor.position == 3
    assert cursor.accept_any("Y", "Z") == ""
    assert cursor.accept_any("Y", "X") == "X"
    assert not cursor.accept("X")


def test_a_quoted_word_is_no_keyword_and_a_word_no_symbol():
    assert not cursor_over("`IF`").at("IF")
    assert not cursor_over("'('").at_symbol("(")
    assert not cursor_over("ſet").at("SET")


def test_the_text_of_an_expression_is_as_written():
    cursor = cursor_over("( a , (b  + 'c)') ) d")

    assert cursor.parenthesised() == "a , (b  + 'c)')"
    assert cursor.peek().text == "d"
    assert cursor_over("a (b, c) d, e").skip_expression() == "a (b, c) d"
    assert cursor_over(", a").skip_expression() == ""
    assert cursor_over("a) b").skip_expression() == "a"


def test_as_many_closing_parentheses_are_taken_as_were_open():
    cursor = cursor_over(")))a")

    assert cursor.close_parentheses(2)
    assert cursor.position == 2
    assert not cursor.close_parentheses(2)
    assert cursor.peek().text == "a"


INTRODUCED = [
    ("_utf8mb4'a'", "a"), ("DATE 'a'", "a"), ("DATE _utf8'a'", "a"), ("_a", "_a"), ("DATE", "DATE"),
    ("TIME x'61'", "61"), ("_binary 0b1", "1"), ("_a 5", "_a"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "following"), INTRODUCED)
def test_the_words_before_a_literal_are_passed_over_and_no_others(text: str, following: str):
    cursor = cursor_over(text)
    cursor.skip_introducers()

    assert cursor.peek().text == following


def test_a_value_has_each_doubled_backslash_once_unless_one_stands_alone():
    texts = [r"'a\\b'", r"'a\\\\b'", r"'a\\b\c'", r"'a\b'", "'a'"]

    assert [cursor_over(text, True).value_string() for text in texts] == ["a\\b", r"a\\b", r"a\\b\c", r"a\b", "a"]
    assert cursor_over(r"'a\\\\b'", False).value_string() == r"a\\b"


def test_a_table_is_named_with_its_schema_or_without():
    assert cursor_over("a.b").table_name("s") == ("a", "b")
    assert cursor_over("b").table_name("s") == ("s", "b")
    assert cursor_over("s.t.c d").column_name() == "c"
    for text in ("``", "'a'", "5", ""):
        with pytest.raises(SchemaError, match="a name"):
            cursor_over(text).identifier()
    assert cursor_over('"a"').identifier() == "a"


def test_a_whole_number_has_digits_alone():
    assert cursor_over("15").integer() == 15
    for text in ("1.5", "1e3", "'15'", "x'15'", "a", ""):
        with pytest.raises(SchemaError, match="a whole number"):
            cursor_over(text).integer()


WITH_BODIES = "CREATE TRIGGER a BEGIN x; y; END"


def test_semicolons_separate_statements_but_not_those_of_a_body():
    def first_words(text: str, restored: bool | None) -> list[str]:
        return [cursor.peek().text for cursor in statement_cursors(text, restored)]

    assert first_words(";a;;b 1;", None) == ["a", "b"]
    assert first_words(f"z; {WITH_BODIES}", True) == ["z", "CREATE"]
    assert first_words("CREATE TABLE a; y", True) == ["CREATE", "y"]
    assert first_words(WITH_BODIES, None) == ["CREATE", "y", "END"]
    for head in ("CREATE OR REPLACE PROCEDURE", "ALTER EVENT", "CREATE DEFINER"):
        assert first_words(f"{head} a BEGIN x; y; END", True) == [head.split()[0]]
    for head in ("DROP TRIGGER", "CREATE a TRIGGER", "CREATE OR a PROCEDURE", "CREATE a REPLACE PROCEDURE"):
        assert first_words(f"{head}; y", True) == [head.split()[0], "y"]
