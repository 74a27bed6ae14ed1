"""The process that Spark forks its Python workers from: all that they need is imported here, once for all of them.

Spark starts it as `python -m` with the name that `spark.python.daemon.module` gives. Without it each worker takes more
than a second of the processor before it does anything.
"""

from __future__ import annotations

import gc

from ticdc_assets.spark import spare_archives

spare_archives()

from pyspark.daemon import manager  # noqa: E402  what follows would be looked for in Java's archives too

from ticdc_assets.pipeline import decode, merge_task, message_decode  # noqa: E402

WORK = (decode, merge_task, message_decode)
"""What workers do, with everything that it imports."""

if __name__ == "__main__":
    gc.freeze()  # a worker looks through its objects after every task, and these never go
    manager()
