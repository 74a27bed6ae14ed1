"""What to do about a table that is held, or about an error: the sentences, each in one place."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_ELSEWHERE: Final = "read the source in a changefeed of another name, with another `target`."
_RESYNC: Final = "Where `upstream` is set, `ticdc-assets resync {table}` copies it from TiDB."
_REBUILD: Final = "`ticdc-assets rebuild --table {table}`"
_FROM_SOURCE: Final = "`ticdc-assets rebuild --table {table} --from source`"


class Advice(StrEnum):
    """One remedy: its value is the sentence for people, `code` is what records keep. `{table}` stands for the name of
    the table."""

    # files
    RESTORE_FILE = "Restore the file, or name it in skip_files if its rows may be lost."
    AWAIT_WHOLE_FILE = "It is being written; the table continues when it is complete."
    RESTORE_CUT_FILE = f"It is being written, or was cut: the table continues when it is complete. {RESTORE_FILE}"
    AWAIT_FILE = (
        "TiCDC is still writing it, or stopped before the file was complete, and the date has changed since. If the "
        "file does not arrive, restore it, or name it in skip_files if its rows may be lost."
    )
    READ_AGAIN = "The next run reads it again."
    RESTORE_INDEX = "Restore the index, or name it in skip_files: then the folder is listed."
    REMOVE_ONE_FILE = (
        "TiCDC writes one of them: remove the other one, or name it in skip_files. Its rows are not read then."
    )
    REMOVE_LINK = "Remove the link."
    MOVE_FILE = "Move the file to its own table's folder, or name it in skip_files if its rows may be lost."
    SEPARATE_BUCKETS = "Their slashes make the paths equal: send one of them to another bucket."
    SET_TABLE_ID_PATHS = (
        "Set use-table-id-as-path in the changefeed's configuration here, if it is set there: `ticdc-assets inspect` "
        "on the bucket shows it."
    )
    SET_DATE_SEPARATOR = (
        "Its rows are not read. Give the changefeed's own date-separator in its configuration here: `ticdc-assets "
        "inspect` on the bucket prints it."
    )
    SET_PROTOCOL = (
        "Its rows are not read. Give the changefeed's own protocol in its configuration here: `ticdc-assets inspect` "
        "on the bucket prints it."
    )
    SKIP_REPEATED_FILES = f"Its rows are not read. If they are repeats, name the files in skip_files; else {_ELSEWHERE}"
    RESTORE_REWRITTEN_FILE = (
        "It was written again after it was read, and without commit_ts its rows cannot be compared with the "
        f"changelog: restore it, or {_ELSEWHERE}"
    )
    RESTORE_FILES_AND_INDEX = (
        "Without commit_ts the rows of files that are written again cannot be compared with the changelog. Restore the "
        "files and the index as they were. If TiCDC has written new rows into them, keep these files in another folder "
        "first, and read it in a changefeed of another name, with another `target`."
    )
    RESTORE_SCHEMA_FILE = (
        "Restore the schema file, or name the folder with /* behind it in skip_files if its rows may be lost."
    )
    RESTORE_SCHEMAS = (
        "If schema files were removed from the bucket, restore them; if the rows may be lost, name the file in "
        "skip_files."
    )
    LEFT_OUT = "If the changefeed leaves it out, give its `column-selectors` in the configuration here."
    LEFT_OUT_OF_FILE = f"{LEFT_OUT} {RESTORE_SCHEMAS}"
    CHECK_FOLDER = f"Check that `sink_uri` names the right bucket, or whether the folder was removed. {_RESYNC}"
    # messages
    RESTORE_MESSAGES = "Restore them; if they may be lost, write the quoted text into the list skip_offsets."
    RESTORE_CAPTURE = (
        "The topic was created again, or this is the capture of another one: restore the former capture, or read this "
        "one in a changefeed of its own."
    )
    SEPARATE_CAPTURES = "Captures of two topics or clusters are mixed: make each a changefeed of its own."
    SORT_CAPTURE = "Sort the capture by offset."
    APPEND_TO_CAPTURE = "Restore the former messages at the beginning, and append new ones."
    AWAIT_PARTITIONS = "The table continues when they arrive; a capture must have them too."
    AWAIT_WATERMARK = "The table continues when it arrives."
    RESTORE_OR_READ_APART = f"Restore them, or read the table in a changefeed of its own. {_RESYNC}"
    # schemas and statements
    COMPLETE_FROM_UPSTREAM = (
        "TiCDC cut a large row (handle-key-only); name TiDB as `upstream` to complete it from, or use claim-check."
    )
    AWAIT_SCHEMA = "It waits: a BOOTSTRAP or DDL message brings the schema; or add the table to `schema_files`."
    AWAIT_STATEMENT = "It waits: the statement about it may be in messages that are not captured yet."
    NEWER_VERSION = "Install a newer version if there is one, or report the statement."
    CHECK_STREAM = (
        "Check that the stream is complete. `schema_files` must describe the table as it was before this statement: "
        "give its CREATE TABLE of that time."
    )
    CREATE_WITHOUT_BACKSLASHES = "Create the table again, and run the statement without backslashes."
    MISSING_STATEMENT = (
        "A statement is missing from the stream; if there was none, give the table's CREATE TABLE in `schema_files`."
    )
    LOST_STATEMENT = "A statement is missing: if the source of the messages still has it, restore its message."
    CREATE_AGAIN = (
        "To continue, copy it from TiDB: `ticdc-assets resync` with its name, where `upstream` is set. Or create the "
        "table again at the source: CREATE TABLE under another name with all its columns (not LIKE), copy the rows, "
        "and give it the name: RENAME TABLE t TO t_old, t_new TO t. The new table is complete here; what changed "
        "between the stop and the copy is in no changelog."
    )
    LOAD_AGAIN = (
        "TiCDC sends no rows for it. Where `upstream` is set, `ticdc-assets resync` with its name copies it from TiDB. "
        "Or at the source, copy the rows to another table, TRUNCATE the table and insert them again; then "
        "`ticdc-assets rebuild` with its --table begins its mirror with that TRUNCATE."
    )
    RESYNC_AGAIN = "Run `ticdc-assets resync {table}` again."
    RESYNC_ALL_AGAIN = "Run `ticdc-assets resync --all` again."
    REBUILD_FROM_SOURCE = f"{_FROM_SOURCE} reads it again. {_RESYNC}"
    READ_ELSEWHERE = f"R{_ELSEWHERE[1:]}"
    # the config
    CHANGE_BACK_OR_REBUILD = (
        f"Change the config back and the table goes on, or keep the change: {_FROM_SOURCE} reads all its rows again; "
        f"it refuses if the source lacks any. {_RESYNC}"
    )
    CHANGE_BACK_OR_READ_ELSEWHERE = f"Change the config back and the table goes on, or keep the change: {_ELSEWHERE}"
    CORRECT_KEYS = "Correct `keys`; for a table whose key the stream has, leave it out. Then run again."
    UNKNOWN_FILES_APART = "Without commit_ts it is not known which ones: read it in a changefeed of its own."
    MIXED_FILES_APART = (
        "Without commit_ts they cannot be distinguished from those of the table that took its name: read it in a "
        "changefeed of its own."
    )
    RENAME_OTHER_TABLE = "Rename that table, or give the changefeed's tables other names with `target`."
    RUN_ALL = "The next run of the whole changefeed continues it."
    RUN_OTHER_FIRST = "They wait: run that changefeed first, then this one again."
    # the lake
    REBUILD = f"{_REBUILD} rebuilds it."
    REBUILD_IF_IT_STAYS = (
        f"If it stays, {_REBUILD} makes mirror and history again from the changelog; if a file of the changelog is "
        f"missing, {_FROM_SOURCE} reads that again first."
    )
    NAME_KEY_IF_SENT = (
        "The rows of that time cannot be in a mirror. Its changelog has them only where the changefeed has "
        "force-replicate: without it TiCDC sends nothing of a table without a key, not its DROP either. Where they "
        "were sent, name the key in `keys`, and the mirror continues at once. Otherwise:"
    )
    DROP_REPLACED = "Nothing more is added here. Drop these tables when nobody reads them."

    @property
    def code(self) -> str:
        """What records keep."""
        return self.name.lower()

    def of(self, table: str) -> str:
        """The sentence about this table."""
        return self.replace("{table}", table)


BY_CODE: Final = {advice.code: advice for advice in Advice}
