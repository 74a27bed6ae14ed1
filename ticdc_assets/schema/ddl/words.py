"""The keywords of statements that concern no table, and of statements that contain others.

Only what begins with one of `ddl.parser`'s own words (CREATE, ALTER, DROP, RENAME, TRUNCATE, RECOVER, FLASHBACK) can
change a table's columns, keys or rows without row events. A word that is in none of these lists is refused.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> list[str]:
    return text.split()


# Statements that change neither columns nor keys; the rows that they change, if any, come as row events.
WITHOUT_EFFECT: Final = frozenset(
    _words("""
    ADMIN ANALYZE BACKUP BEGIN BINLOG CACHE CALIBRATE CALL CANCEL CHANGE CHECK CHECKSUM CLONE COMMIT DEALLOCATE
    DELETE DELIMITER DESC DESCRIBE DISTRIBUTE DO EXECUTE EXPLAIN FLUSH GET GRANT HANDLER HELP INSERT INSTALL KILL
    LOAD LOCK OPTIMIZE PAUSE PLAN PREPARE PURGE QUERY RECOMMEND REFRESH RELEASE REPAIR REPLACE RESET RESIGNAL
    RESTART RESUME REVOKE ROLLBACK SAVEPOINT SELECT SET SHOW SHUTDOWN SIGNAL SPLIT START STOP TABLE TRACE TRAFFIC
    UNINSTALL UNLOCK UPDATE VALUES WITH XA
    """)
)

# What CREATE, ALTER and DROP make and change besides tables, databases and indexes, or what stands before its name.
OTHER_OBJECTS: Final = frozenset(
    _words("""
    AGGREGATE ALGORITHM BINDING DEFINER EVENT FUNCTION INSTANCE LOADABLE LOGFILE MASKING PLACEMENT PREPARE
    PROCEDURE RANGE RESOURCE ROLE SEQUENCE SERVER SESSION SPATIAL SQL STATISTICS STATS TABLESPACE TRIGGER UNDO
    USER VIEW WORKLOAD
    """)
)

# Objects whose bodies may hold statements, with semicolons between them, up to the end of the text.
_WITH_BODY: Final = frozenset(("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "DEFINER", "AGGREGATE"))


def begins_body(words: list[str]) -> bool:
    """Whether a statement that begins with these words makes something whose body may hold other statements."""
    if words[0] not in ("CREATE", "ALTER"):
        return False
    return (words[3:4] if words[1:3] == ["OR", "REPLACE"] else words[1:2]) in ([word] for word in _WITH_BODY)
