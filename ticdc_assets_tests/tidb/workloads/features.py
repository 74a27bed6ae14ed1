"""Databases in which a TiDB server does what random statements do not: each uses some features of TiDB.

Statements are in the form in which TiDB restores them, which is what TiCDC sends. Those that the server refuses are left
out; `PREPARED` is run before, and no stream tells it.
"""

# ruff: noqa: E501 (statements in lines)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.server import LOOSE, Snapshots, Tidb
from ticdc_assets_tests.tidb.workloads.recording import Recorder

PREPARED: Final = (
    "SET GLOBAL tidb_enable_check_constraint = 1",
    "SET SESSION tidb_enable_global_index = 1",
    "SET SESSION allow_auto_random_explicit_insert = 1",
    "SET SESSION foreign_key_checks = 1",
    "SET SESSION tidb_allow_remove_auto_inc = 1",
    "CREATE PLACEMENT POLICY IF NOT EXISTS `pp` FOLLOWERS=1",
)

Script = Sequence[str | Sequence[str]]
"""Statements, and transactions as sequences of statements."""

SCRIPTS: Final[Mapping[str, Script]] = {
    "generated columns": (
        "CREATE TABLE `t` (`rn` INT NOT NULL,`a` INT,`v` INT GENERATED ALWAYS AS(`a`+1) VIRTUAL,`s` INT GENERATED ALWAYS AS(`a`*2) STORED,PRIMARY KEY(`rn`))",
        ["INSERT INTO t (rn,a) VALUES (1,10),(2,NULL)"],
        "ALTER TABLE `t` ADD COLUMN `w` VARCHAR(20) GENERATED ALWAYS AS(CONCAT('x', `a`)) VIRTUAL AFTER `a`",
        ["INSERT INTO t (rn,a) VALUES (3,30)", "UPDATE t SET a=11 WHERE rn=1"],
        "ALTER TABLE `t` MODIFY COLUMN `v` BIGINT GENERATED ALWAYS AS(`a`+1) VIRTUAL",
        "ALTER TABLE `t` MODIFY COLUMN `s` BIGINT GENERATED ALWAYS AS(`a`*2) STORED",
        "ALTER TABLE `t` RENAME COLUMN `s` TO `s2`",
        "ALTER TABLE `t` ADD INDEX `i`(`v`)",
        "ALTER TABLE `t` ADD UNIQUE `uv`(`rn`, `w`)",
        "ALTER TABLE `t` DROP INDEX `i`",
        "ALTER TABLE `t` DROP INDEX `uv`",
        "ALTER TABLE `t` DROP COLUMN `w`",
        ["INSERT INTO t (rn,a) VALUES (4,40)", "DELETE FROM t WHERE rn=2"],
        "ALTER TABLE `t` DROP COLUMN `v`",
        "ALTER TABLE `t` DROP COLUMN `s2`, ADD COLUMN `b` INT NOT NULL DEFAULT 3",
        ["INSERT INTO t (rn,a) VALUES (5,50)"],
        "CREATE TABLE `k` (`rn` INT NOT NULL,`a` INT NOT NULL,`s` INT GENERATED ALWAYS AS(`a`*2) STORED NOT NULL,PRIMARY KEY(`rn`, `s`))",
        ["INSERT INTO k (rn,a) VALUES (1,10),(2,20)"],
        ["UPDATE k SET a=a+1", "INSERT INTO k (rn,a) VALUES (3,30)"],
        "CREATE TABLE `vk` (`rn` INT NOT NULL,`a` INT NOT NULL,`v` INT GENERATED ALWAYS AS(`a`*2) VIRTUAL NOT NULL,UNIQUE `u`(`v`),UNIQUE `r`(`rn`, `a`))",
        ["INSERT INTO vk (rn,a) VALUES (1,10),(2,20)"],
        ["UPDATE vk SET a=a+1 WHERE rn=1"],
    ),
    "expression defaults": (
        "CREATE TABLE `t` (`rn` INT NOT NULL,`u` VARCHAR(36) DEFAULT (UUID()),`r` DOUBLE DEFAULT (RAND()),`d` DATE DEFAULT (CURRENT_DATE()),`j` JSON DEFAULT (JSON_OBJECT(_UTF8MB4'a', 1)),`f` VARCHAR(20) DEFAULT (DATE_FORMAT(NOW(), _UTF8MB4'%Y-%m')),PRIMARY KEY(`rn`))",
        ["INSERT INTO t (rn) VALUES (1),(2)", "INSERT INTO t (rn,j) VALUES (3,NULL)"],
        "ALTER TABLE `t` ADD COLUMN `x` VARCHAR(36) DEFAULT (UUID())",
        "ALTER TABLE `t` ADD COLUMN `y` DATE DEFAULT (CURRENT_DATE())",
        "ALTER TABLE `t` ADD COLUMN `z` JSON DEFAULT (JSON_ARRAY(1, 2))",
        "ALTER TABLE `t` ADD COLUMN `b` BLOB DEFAULT (_UTF8MB4'abc')",
        "ALTER TABLE `t` ALTER COLUMN `u` SET DEFAULT (REPLACE(UPPER(UUID()), _UTF8MB4'-', _UTF8MB4''))",
        "ALTER TABLE `t` MODIFY COLUMN `r` DOUBLE NOT NULL DEFAULT (RAND())",
        ["INSERT INTO t (rn) VALUES (4)"],
        "ALTER TABLE `t` ADD COLUMN `ts` TIMESTAMP DEFAULT CURRENT_TIMESTAMP() ON UPDATE CURRENT_TIMESTAMP()",
        ["INSERT INTO t (rn) VALUES (5)", "UPDATE t SET u='q' WHERE rn=1"],
        "ALTER TABLE `t` ALTER COLUMN `u` DROP DEFAULT",
        ["INSERT INTO t (rn) VALUES (6)"],
        "ALTER TABLE `t` ADD COLUMN `n` INT NOT NULL",
        "ALTER TABLE `t` ADD COLUMN `e` ENUM('x','y') NOT NULL",
        "ALTER TABLE `t` ADD COLUMN `dd` DATE NOT NULL",
        ["INSERT INTO t (rn,dd) VALUES (7,'2024-01-02')"],
    ),
    "comments and names": (
        "CREATE TABLE `t` (`rn` INT NOT NULL COMMENT 'it''s; -- no /* comment */ `x` \\ \"',`a b` INT COMMENT '',`c,d)` VARCHAR(10) DEFAULT _UTF8MB4'a,b)' COMMENT '日本 %s {}',`SELECT` INT,`ä` INT,PRIMARY KEY(`rn`)) COMMENT = 'PRIMARY KEY(`a b`), DROP COLUMN `ä`'",
        ["INSERT INTO t VALUES (1,1,'x',1,1)"],
        "ALTER TABLE `t` MODIFY COLUMN `a b` BIGINT COMMENT 'DEFAULT 5 NOT NULL FIRST'",
        "ALTER TABLE `t` ADD COLUMN `q``q` INT DEFAULT 7 COMMENT '*/ AFTER `rn`' AFTER `rn`",
        "ALTER TABLE `t` RENAME COLUMN `SELECT` TO `from`",
        "ALTER TABLE `t` COMMENT = ';DROP TABLE `t`;'",
        ["INSERT INTO t (rn) VALUES (2)"],
        "ALTER TABLE `t` CHANGE COLUMN `c,d)` `A B` VARCHAR(20) DEFAULT _UTF8MB4'''' COMMENT '#'",
        "ALTER TABLE `t` ADD COLUMN `A B` VARCHAR(20) DEFAULT _UTF8MB4'''' COMMENT '#'",
        ["INSERT INTO t (rn) VALUES (3)"],
    ),
    "constraints": (
        "CREATE TABLE `t` (`rn` INT NOT NULL,`a` INT CHECK(`a`>0) ENFORCED,`b` INT,PRIMARY KEY(`rn`),CONSTRAINT `c1` CHECK(`a`<`b`) ENFORCED,CHECK(`b`<>3) NOT ENFORCED)",
        ["INSERT INTO t VALUES (1,1,2)"],
        "ALTER TABLE `t` ADD CONSTRAINT `c2` CHECK(`b`<100) ENFORCED",
        "ALTER TABLE `t` ADD CONSTRAINT `c3` CHECK(`a` IN (1,2,3)) NOT ENFORCED",
        "ALTER TABLE `t` ALTER CHECK `c2` NOT ENFORCED",
        "ALTER TABLE `t` DROP CHECK `c2`",
        "ALTER TABLE `t` DROP CONSTRAINT `c3`",
        ["INSERT INTO t VALUES (2,2,200)"],
        "ALTER TABLE `t` ADD COLUMN `c` INT CHECK(`c`>5) DEFAULT 6",
        "ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT 6",
        ["INSERT INTO t (rn,a,b) VALUES (3,2,200)"],
        "CREATE TABLE `p` (`rn` INT NOT NULL,PRIMARY KEY(`rn`))",
        "CREATE TABLE `c` (`rn` INT NOT NULL,`pid` INT,PRIMARY KEY(`rn`),CONSTRAINT `f` FOREIGN KEY (`pid`) REFERENCES `p`(`rn`) ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE `n` (`rn` INT NOT NULL,`pid` INT,PRIMARY KEY(`rn`),CONSTRAINT `g` FOREIGN KEY (`pid`) REFERENCES `p`(`rn`) ON DELETE SET NULL)",
        ["INSERT INTO p VALUES (1),(2),(3)", "INSERT INTO c VALUES (10,1),(11,2)", "INSERT INTO n VALUES (10,1),(11,2)"],
        ["DELETE FROM p WHERE rn=1"],
        ["UPDATE p SET rn=22 WHERE rn=2"],
        "ALTER TABLE `c` DROP FOREIGN KEY `f`",
        "ALTER TABLE `c` ADD CONSTRAINT `f2` FOREIGN KEY (`pid`) REFERENCES `p`(`rn`)",
        ["INSERT INTO c VALUES (12,22)"],
    ),
    "numbers that TiDB gives": (
        "CREATE TABLE `t` (`rn` BIGINT NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */,`a` INT,PRIMARY KEY(`rn`) /*T![clustered_index] CLUSTERED */)",
        ["INSERT INTO t (a) VALUES (1),(2),(3)"],
        "ALTER TABLE `t` MODIFY COLUMN `rn` BIGINT NOT NULL /*T![auto_rand] AUTO_RANDOM(6) */",
        "ALTER TABLE `t` /*T![auto_rand_base] AUTO_RANDOM_BASE = 1000 */",
        "ALTER TABLE `t` FORCE /*T![auto_rand_base] AUTO_RANDOM_BASE = 2000 */",
        ["INSERT INTO t (a) VALUES (4)"],
        "CREATE TABLE `i` (`rn` INT NOT NULL AUTO_INCREMENT,`a` INT,PRIMARY KEY(`rn`) /*T![clustered_index] NONCLUSTERED */) AUTO_INCREMENT = 100 /*T![auto_id_cache] AUTO_ID_CACHE = 1 */",
        ["INSERT INTO i (a) VALUES (1),(2)"],
        "ALTER TABLE `i` AUTO_INCREMENT = 500",
        "ALTER TABLE `i` FORCE AUTO_INCREMENT = 700",
        "ALTER TABLE `i` /*T![auto_id_cache] AUTO_ID_CACHE = 100 */",
        "ALTER TABLE `i` SHARD_ROW_ID_BITS = 4",
        "ALTER TABLE `i` /*T! SHARD_ROW_ID_BITS = 3 */",
        ["INSERT INTO i (a) VALUES (3)"],
        "ALTER TABLE `i` MODIFY COLUMN `rn` BIGINT NOT NULL",
        ["INSERT INTO i (rn,a) VALUES (9000000000,4)"],
        "CREATE TABLE `r` (`rn` BIGINT UNSIGNED NOT NULL /*T![auto_rand] AUTO_RANDOM(3, 54) */,PRIMARY KEY(`rn`) /*T![clustered_index] CLUSTERED */) /*T![auto_rand_base] AUTO_RANDOM_BASE = 7 */ /*T! PRE_SPLIT_REGIONS = 2 */",
        ["INSERT INTO r VALUES (),()"],
        "CREATE SEQUENCE `sq` START WITH 5 INCREMENT BY 2 CACHE 3",
        "CREATE TABLE `s` (`rn` BIGINT NOT NULL DEFAULT NEXT VALUE FOR `sq`,`a` INT,PRIMARY KEY(`rn`))",
        ["INSERT INTO s (a) VALUES (1),(2)"],
        "ALTER SEQUENCE `sq` INCREMENT BY 10",
        "CREATE TABLE `s2` (`rn` BIGINT NOT NULL,`b` BIGINT DEFAULT NEXTVAL(`sq`),PRIMARY KEY(`rn`))",
        ["INSERT INTO s2 (rn) VALUES (1)"],
        "ALTER TABLE `s2` ADD COLUMN `c` BIGINT DEFAULT NEXT VALUE FOR `sq`",
        "ALTER TABLE `s2` ADD COLUMN `d` INT DEFAULT 4",
        "ALTER TABLE `s2` ALTER COLUMN `b` DROP DEFAULT",
        ["INSERT INTO s2 (rn) VALUES (2)"],
        "DROP SEQUENCE `sq`",
        ["INSERT INTO s (rn,a) VALUES (77,3)"],
    ),
    "options of tables": (
        "CREATE TABLE `t` (`rn` INT NOT NULL,`d` DATETIME,PRIMARY KEY(`rn`)) /*T![ttl] TTL = `d` + INTERVAL 300 YEAR */ /*T![ttl] TTL_ENABLE = 'ON' */ /*T![ttl] TTL_JOB_INTERVAL = '2h' */",
        ["INSERT INTO t VALUES (1,'2024-01-02 03:04:05')"],
        "ALTER TABLE `t` /*T![ttl] TTL_ENABLE = 'OFF' */",
        "ALTER TABLE `t` /*T![ttl] TTL = `d` + INTERVAL 200 YEAR */ /*T![ttl] TTL_ENABLE = 'ON' */",
        "ALTER TABLE `t` /*T![ttl] REMOVE TTL */",
        "ALTER TABLE `t` /*T![placement] PLACEMENT POLICY = `pp` */",
        "ALTER TABLE `t` /*T![placement] PLACEMENT POLICY = DEFAULT */",
        "ALTER TABLE `t` ATTRIBUTES='merge_option=allow'",
        "ALTER TABLE `t` STATS_OPTIONS='{\"auto_recalc\": true}'",
        "ALTER TABLE `t` SET TIFLASH REPLICA 1",
        "ALTER TABLE `t` SET TIFLASH REPLICA 0",
        "ALTER TABLE `t` CACHE",
        "ALTER TABLE `t` NOCACHE",
        "ALTER TABLE `t` COMPACT",
        "ALTER TABLE `t` ENGINE = InnoDB ROW_FORMAT = COMPRESSED",
        "ALTER TABLE `t` ORDER BY `d`",
        "ALTER TABLE `t` ADD INDEX `i`(`d`) INVISIBLE",
        "ALTER TABLE `t` ALTER INDEX `i` VISIBLE",
        "ALTER TABLE `t` ADD UNIQUE `e2`((`rn`+1))",
        "ALTER TABLE `t` RENAME INDEX `i` TO `j`",
        "ALTER TABLE `t` DROP INDEX `e2`, ALGORITHM = INPLACE, LOCK = NONE",
        ["INSERT INTO t VALUES (2,'2024-01-02 03:04:05')"],
        "CREATE TABLE `c` LIKE `t`",
        ["INSERT INTO c VALUES (3,NULL)"],
        "ALTER TABLE `c` ADD COLUMN `x` VARCHAR(10) DEFAULT _UTF8MB4'é'",
        ["INSERT INTO c (rn) VALUES (4)"],
        "CREATE ALGORITHM = UNDEFINED DEFINER = `root`@`%` SQL SECURITY DEFINER VIEW `v` (`rn`) AS SELECT `rn` FROM `t`",
        "DROP VIEW `v`",
        "CREATE GLOBAL TEMPORARY TABLE `g` (`rn` INT NOT NULL,PRIMARY KEY(`rn`)) ON COMMIT DELETE ROWS",
        "DROP TABLE `g`",
        "CREATE TABLE `vec` (`rn` INT NOT NULL,`v` VECTOR(3),`w` VECTOR,PRIMARY KEY(`rn`))",
        ["INSERT INTO vec VALUES (1,'[1,2,3]','[]'),(2,NULL,'[0.5]')"],
        "ALTER TABLE `vec` ADD COLUMN `x` VECTOR(2)",
        ["INSERT INTO vec VALUES (3,'[1,2,3]','[1]','[0.1,1e10]')"],
    ),
    "partitions": (
        "CREATE TABLE `t` (`rn` INT NOT NULL,`a` INT NOT NULL,`b` INT,PRIMARY KEY(`rn`) /*T![clustered_index] NONCLUSTERED */ /*T![global_index] GLOBAL */,UNIQUE `u`(`rn`, `a`)) PARTITION BY RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (20) /*T![placement] PLACEMENT POLICY = `pp` */ COMMENT = 'x)',PARTITION `pm` VALUES LESS THAN (MAXVALUE))",
        ["INSERT INTO t VALUES (1,5,1),(2,15,1),(3,25,1),(4,19,2)"],
        "ALTER TABLE `t` REORGANIZE PARTITION `p0`,`p1` INTO (PARTITION `q` VALUES LESS THAN (15),PARTITION `r` VALUES LESS THAN (20))",
        "ALTER TABLE `t` TRUNCATE PARTITION `r`",
        ["INSERT INTO t VALUES (5,5,1),(6,15,1)"],
        "ALTER TABLE `t` REORGANIZE PARTITION `pm` INTO (PARTITION `s` VALUES LESS THAN (30),PARTITION `pm` VALUES LESS THAN (MAXVALUE))",
        "ALTER TABLE `t` DROP PARTITION `s`",
        ["INSERT INTO t VALUES (7,25,1),(8,35,1)"],
        "ALTER TABLE `t` PARTITION BY HASH (`a`) PARTITIONS 3 UPDATE INDEXES (`PRIMARY` GLOBAL,`u` LOCAL)",
        ["INSERT INTO t VALUES (9,26,1)"],
        "ALTER TABLE `t` TRUNCATE PARTITION `p0`",
        "ALTER TABLE `t` COALESCE PARTITION 1",
        "ALTER TABLE `t` TRUNCATE PARTITION `p1`",
        ["INSERT INTO t VALUES (10,26,1),(11,27,1)"],
        "ALTER TABLE `t` ADD PARTITION PARTITIONS 2",
        "ALTER TABLE `t` REMOVE PARTITIONING",
        ["INSERT INTO t VALUES (12,26,1)"],
        "ALTER TABLE `t` PARTITION BY LIST (`a`) (PARTITION `x` VALUES IN (26,27),PARTITION `y` DEFAULT) UPDATE INDEXES (`PRIMARY` GLOBAL)",
        "ALTER TABLE `t` TRUNCATE PARTITION `x`",
        ["INSERT INTO t VALUES (13,26,1)"],
        "ALTER TABLE `t` PARTITION BY KEY (`a`) PARTITIONS 4 UPDATE INDEXES (`PRIMARY` GLOBAL)",
        ["INSERT INTO t VALUES (14,26,1),(15,27,1),(16,28,1)"],
        "ALTER TABLE `t` TRUNCATE PARTITION `p2`,`p3`",
        "CREATE TABLE `iv` (`rn` INT NOT NULL,`d` DATE NOT NULL,PRIMARY KEY(`rn`, `d`)) PARTITION BY RANGE COLUMNS (`d`) INTERVAL (1 MONTH) FIRST PARTITION LESS THAN (_UTF8MB4'2024-02-01') LAST PARTITION LESS THAN (_UTF8MB4'2024-06-01')",
        ["INSERT INTO iv VALUES (1,'2024-01-15'),(2,'2024-02-15'),(3,'2024-05-15')"],
        "ALTER TABLE `iv` FIRST PARTITION LESS THAN (_UTF8MB4'2024-03-01')",
        "ALTER TABLE `iv` LAST PARTITION LESS THAN (_UTF8MB4'2024-08-01')",
        ["INSERT INTO iv VALUES (4,'2024-07-15')"],
        "ALTER TABLE `iv` MERGE FIRST PARTITION LESS THAN (_UTF8MB4'2024-05-01')",
        "ALTER TABLE `iv` SPLIT MAXVALUE PARTITION LESS THAN (_UTF8MB4'2024-09-01')",
        ["INSERT INTO iv VALUES (5,'2024-04-15')"],
        "CREATE TABLE `ex` (`rn` INT NOT NULL,`a` INT NOT NULL,PRIMARY KEY(`rn`, `a`)) PARTITION BY RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (20))",
        "CREATE TABLE `e` (`rn` INT NOT NULL,`a` INT NOT NULL,PRIMARY KEY(`rn`, `a`))",
        ["INSERT INTO ex VALUES (1,5),(2,15)", "INSERT INTO e VALUES (3,6)"],
        "ALTER TABLE `ex` EXCHANGE PARTITION `p0` WITH TABLE `e` WITH VALIDATION",
        ["INSERT INTO ex VALUES (4,7)", "INSERT INTO e VALUES (5,8)"],
    ),
    "several changes": (
        "CREATE TABLE `t` (`rn` INT NOT NULL,`a` INT DEFAULT 1,`b` VARCHAR(10) DEFAULT _UTF8MB4'x',`c` INT,PRIMARY KEY(`rn`),UNIQUE `u`(`c`),INDEX `i`(`a`))",
        ["INSERT INTO t VALUES (1,1,'a',1),(2,2,'b',2)"],
        "ALTER TABLE `t` ADD COLUMN `d` INT NOT NULL DEFAULT 4 FIRST, DROP COLUMN `a`, MODIFY COLUMN `b` VARCHAR(30) NOT NULL, RENAME INDEX `u` TO `u2`, ADD COLUMN `e` BIGINT DEFAULT 5 AFTER `c`",
        "ALTER TABLE `t` ADD COLUMN `d` INT NOT NULL DEFAULT 4 FIRST, DROP COLUMN `a`, MODIFY COLUMN `b` VARCHAR(30) NOT NULL, ADD COLUMN `e` BIGINT DEFAULT 5",
        "ALTER TABLE `t` ADD COLUMN `d` INT NOT NULL DEFAULT 4 FIRST, ADD COLUMN `e` BIGINT DEFAULT 5",
        ["INSERT INTO t (rn,b) VALUES (3,'c')"],
        "ALTER TABLE `t` RENAME COLUMN `d` TO `x`, RENAME COLUMN `e` TO `d`",
        "ALTER TABLE `t` CHANGE COLUMN `x` `y` BIGINT NOT NULL DEFAULT 9, ADD COLUMN (`g` INT,`h` INT DEFAULT 8)",
        "ALTER TABLE `t` ADD COLUMN (`g` INT,`h` INT DEFAULT 8)",
        "ALTER TABLE `t` CHANGE COLUMN `d` `y` BIGINT, CHANGE COLUMN `y` `d` BIGINT",
        ["INSERT INTO t (rn,b) VALUES (4,'d')"],
        "ALTER TABLE `t` ADD COLUMN `z` INT, ADD UNIQUE `uz`(`z`), ALTER COLUMN `g` SET DEFAULT 3",
        ["INSERT INTO t (rn,b,z) VALUES (5,'e',7)"],
        "ALTER TABLE `t` DROP COLUMN `g`, ADD COLUMN `g` VARCHAR(5) DEFAULT _UTF8MB4'new'",
        "ALTER TABLE `t` DROP COLUMN IF EXISTS `nope`, ADD COLUMN IF NOT EXISTS `z` INT",
        "ALTER TABLE `t` ADD COLUMN IF NOT EXISTS `zz` INT DEFAULT 2",
        ["INSERT INTO t (rn,b) VALUES (6,'f')", "UPDATE t SET rn=60 WHERE rn=6"],
        "ALTER TABLE `t` MODIFY COLUMN `zz` VARCHAR(5) CHARACTER SET UTF8MB4 COLLATE utf8mb4_general_ci",
        "ALTER TABLE `t` CONVERT TO CHARACTER SET UTF8MB4 COLLATE UTF8MB4_UNICODE_CI",
        ["INSERT INTO t (rn,b) VALUES (7,'ß')"],
        "CREATE TABLE `n` (`rn` INT NOT NULL,`a` VARCHAR(10) NOT NULL,PRIMARY KEY(`a`(2), `rn`) /*T![clustered_index] CLUSTERED */)",
        ["INSERT INTO n VALUES (1,'abc'),(2,'abd')"],
        ["UPDATE n SET a='abx' WHERE rn=1", "DELETE FROM n WHERE rn=2", "INSERT INTO n VALUES (2,'abe')"],
        "CREATE TABLE `q` (`rn` INT NOT NULL,`a` INT NOT NULL,PRIMARY KEY(`rn`) /*T![clustered_index] NONCLUSTERED */,UNIQUE `u`(`a`))",
        ["INSERT INTO q VALUES (1,1),(2,2)"],
        "ALTER TABLE `q` DROP PRIMARY KEY",
        ["UPDATE q SET a=a+10", "INSERT INTO q VALUES (3,3)"],
        "ALTER TABLE `q` ADD PRIMARY KEY(`rn`, `a`) /*T![clustered_index] NONCLUSTERED */",
        ["UPDATE q SET a=a+10"],
    ),
}  # fmt: skip


def play(database: str, script: Script) -> tuple[list[dict[str, object]], list[str]]:
    """The steps of a script in a database of its own, and the statements that the server refused."""
    tidb, snapshots = Tidb(database, "+00:00", LOOSE), Snapshots(database)
    for statement in PREPARED:
        tidb.takes(statement)
    recorder, refused = Recorder(tidb, snapshots), []
    for part in script:
        if not isinstance(part, str):
            recorder.transact(list(part))
        elif not recorder.execute(part):
            refused.append(part)
    tidb.close()
    snapshots.close()
    return recorder.steps, refused


def histories(_: Tidb, count: int, seed: int) -> Iterator[History]:
    """A history of each script."""
    for number, script in enumerate(SCRIPTS.values()):
        steps, _refused = play(f"f{number}", script)
        yield {"id": f"f{number}", "mode": LOOSE, "zone": "UTC", "steps": steps}
