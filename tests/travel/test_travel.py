"""500 trips under faults and kills: by the services' books each is done, undone, or in the queue, step by step."""

import json
import os
import subprocess
import sys

from tests.shared import ROOT

TRIPS = 500
LONGEST = 280.0


def test_every_trip_is_done_undone_or_in_the_queue_with_what_stands():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "bench.travel", "--runs", str(TRIPS), "--seed", "7", "--json"]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=LONGEST, check=False
    )
    assert ended.stdout, ended.stderr
    played = json.loads(ended.stdout)
    assert (played["wrong"], sum(played["kinds"].values())) == ({}, TRIPS), ended.stderr
    for kind in ("done", "undone", "queued"):  # else nothing was shown
        assert played["kinds"][kind] > 0
    assert played["kills"]["agent"] > 0
    assert played["faults"] > TRIPS // 2
    assert played["undone effects"] > 0
    assert set(played["reasons"]) & {"its undoing is refused for good", "nobody can know: a fault hid the outcome"}
