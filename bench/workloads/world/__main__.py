"""``python -m bench.workloads.world MODULE``: the world of a module's tasks, in the weather that follows as JSON."""

from __future__ import annotations

import importlib
import json
import sys

from bench.workloads.world.rehearsal import Rehearsal
from bench.workloads.world.server import World, serve
from bench.workloads.world.weather import Weather

if __name__ == "__main__":
    tasks = importlib.import_module(sys.argv[1]).tasks()
    serve(World(Rehearsal(tasks), Weather(**json.loads(sys.argv[2]))))
