"""A database in the TiDB that TICDC_ASSETS_TIDB names."""

from __future__ import annotations

import json
import os
from typing import Any

import pymysql

from ticdc_assets.config.model.source import Upstream

SERVER = os.environ.get("TICDC_ASSETS_TIDB", "")

DATABASE = "ticdc_assets_%`x"


class Tidb:
    """A database of its own in the server."""

    def __init__(self) -> None:
        host, _, port = SERVER.partition(":")
        self.upstream = Upstream(host, "root", int(port or 4000))
        self._connection = pymysql.connect(host=host, port=self.upstream.port, user="root", autocommit=True)
        self.run(f"DROP DATABASE IF EXISTS {self.name}", f"CREATE DATABASE {self.name}", f"USE {self.name}")
        # TiDB's embedded store collects no garbage, and yet asks for this before a read of the past.
        self.run("INSERT IGNORE INTO mysql.tidb VALUES ('tikv_gc_safe_point', '20200101-00:00:00.000 +0000', '')")
        # A date of zeros is a value too, and TIMESTAMPs are read in the zone of the changefeed.
        self.run("SET SESSION sql_mode = '', time_zone = '+08:00'")

    @property
    def name(self) -> str:
        return f"`{DATABASE.replace('`', '``')}`"

    def run(self, *statements: str, values: tuple[Any, ...] | None = None) -> int:
        """Run the statements; the commit_ts of the last."""
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, values)
            cursor.execute("SELECT @@tidb_last_txn_info")
            [info] = cursor.fetchone() or [""]
        return int(json.loads(info or "{}").get("commit_ts", 0))

    def close(self) -> None:
        self.run(f"DROP DATABASE {self.name}")
        self._connection.close()
