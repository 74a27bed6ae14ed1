"""Records what a TiDB server does: `python -m ticdc_assets_tests.tidb KIND COUNT SEED`, TICDC_ASSETS_TIDB names it.

KIND is random, conversions (of all pairs of types: COUNT is the first), defaults, partitions, workloads (of each time
zone COUNT databases), features, grammar or streams (COUNT and SEED change nothing at these).
"""

from __future__ import annotations

import sys

from ticdc_assets_tests.tidb import conversions, defaults, partitions, recording
from ticdc_assets_tests.tidb.grammar import listed
from ticdc_assets_tests.tidb.recorded import FOLDER
from ticdc_assets_tests.tidb.server import Tidb
from ticdc_assets_tests.tidb.workloads import features, streams
from ticdc_assets_tests.tidb.workloads import recording as workload_recording

if __name__ == "__main__":
    kind, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tidb = Tidb(f"recorded_{kind}")
    made = {
        "random": recording.histories,
        "conversions": conversions.histories,
        "defaults": defaults.histories,
        "partitions": partitions.histories,
        "workloads": workload_recording.histories,
        "features": features.histories,
        "grammar": listed.histories,
        "streams": streams.histories,
    }[kind]
    print(recording.write(FOLDER / f"{kind}.jsonl.xz", made(tidb, count, seed)), "histories")
    tidb.close()
