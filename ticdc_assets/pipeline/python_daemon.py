"""The process from which Spark forks its Python workers. It imports all that they need, once for all of them.

Spark starts it as `python -m` with the name in `spark.python.daemon.module`. Without it, each worker needs more than a
second of CPU time before it starts its task.
"""

from __future__ import annotations

import gc

from ticdc_assets.spark.worker_process import spare_archives

spare_archives()
if __name__ == "__main__":
    gc.disable()  # all that is imported stays: to look for garbage in it takes a seventh of the time

from pyspark.daemon import manager  # noqa: E402  what follows would be looked for in Java's archives too

from ticdc_assets.pipeline.mirror.merge import worker as merge_worker  # noqa: E402
from ticdc_assets.pipeline.storage import decode  # noqa: E402
from ticdc_assets.pipeline.stream.decode import worker as message_decode  # noqa: E402
from ticdc_assets.tables.maintenance import rewrite_worker  # noqa: E402

WORK = (decode, merge_worker, rewrite_worker, message_decode)
"""The modules that workers run; importing them imports everything else."""

if __name__ == "__main__":
    gc.freeze()  # a worker collects garbage after every task; these objects are never freed
    gc.enable()
    manager()
