"""One asset for each engine, a check of one of them, and a schedule for all."""

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
from dagster_pyspark import LazyPySparkResource

from ticdc_assets.assets.lake_resource import LakeResource

USERS = dg.AssetKey(["shop", "mirror", "shop", "users"])
CHANGES = dg.AssetKey(["shop", "changelog", "shop", "users_changes"])


@dg.asset(ins={"users": dg.AssetIn(USERS, input_manager_key="lake_io", metadata={"columns": ["id", "y"]})})
def users_by_arrow(users: pa.Table) -> dg.MaterializeResult[None]:
    """pyiceberg reads two columns of the mirror into Arrow."""
    newest = pc.max(users["y"]).as_py()
    return dg.MaterializeResult(metadata={"users": users.num_rows, "newest_year": newest})


@dg.asset(deps=[USERS])
def users_by_polars(lake: LakeResource) -> dg.MaterializeResult[None]:
    """Polars counts users with an address."""
    users = lake.mirror("shop.users").to_polars(["id", "email"])
    return dg.MaterializeResult(metadata={"users": users.height, "with_email": users["email"].count()})


@dg.asset(deps=[CHANGES])
def changes_by_duckdb(lake: LakeResource) -> dg.MaterializeResult[None]:
    """DuckDB counts the changes of each kind."""
    changes = lake.changelog("shop.users").to_duckdb(["_ticdc_op"])
    counted = changes.aggregate("_ticdc_op, count(*)").fetchall()
    return dg.MaterializeResult(metadata={"changes": dict(counted)})


@dg.asset(deps=[USERS, CHANGES])
def users_by_spark(lake: LakeResource, pyspark: LazyPySparkResource) -> dg.MaterializeResult[None]:
    """Spark counts the changes of each user who is still there. Both tables are of one TSO."""
    recorded = lake.recorded()
    recorded.mirror("shop.users").to_spark(["id"]).createOrReplaceTempView("users")
    recorded.changelog("shop.users").to_spark(["id"]).createOrReplaceTempView("changes")
    query = "SELECT count(DISTINCT id) AS users, count(*) AS changes FROM users JOIN changes USING (id)"
    [row] = pyspark.spark_session.sql(query).collect()
    return dg.MaterializeResult(metadata={"users": row["users"], "changes": row["changes"], "tso": str(recorded.tso)})


@dg.asset_check(asset=users_by_arrow)
def there_are_users(lake: LakeResource) -> dg.AssetCheckResult:
    """The mirror is not empty."""
    rows = lake.mirror("shop.users").to_arrow(["id"]).num_rows
    return dg.AssetCheckResult(passed=rows > 0, metadata={"users": rows})


reports = dg.define_asset_job(
    "reports", dg.AssetSelection.assets("users_by_arrow", "users_by_polars", "changes_by_duckdb", "users_by_spark")
)


@dg.schedule(job=reports, cron_schedule="0 6 * * *", execution_timezone="UTC")
def every_morning() -> dg.RunRequest:
    """The reports at six."""
    return dg.RunRequest()
