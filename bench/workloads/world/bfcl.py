"""The tasks of the Berkeley Function Calling Leaderboard v4, multi-turn base, read from the installed package."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import json
from functools import partial
from importlib import resources
from typing import Any

from bench.workloads.world.catalog import Planned, Task

FILE = "BFCL_v4_multi_turn_base.json"


def tasks() -> list[Task]:
    """Return the 200 tasks with their ground-truth calls."""
    places = importlib.import_module("bfcl_eval.constants.executable_backend_config")
    truths = {entry["id"]: entry["ground_truth"] for entry in _lines(f"possible_answer/{FILE}")}
    return [_task(entry, truths[entry["id"]], places) for entry in _lines(FILE)]


def _lines(name: str) -> list[dict[str, Any]]:
    text = (resources.files("bfcl_eval") / "data" / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _task(entry: dict[str, Any], turns: list[list[str]], places: Any) -> Task:
    classes = {name: _class(name, places) for name in entry["involved_classes"]}
    begin = partial(_begin, classes, entry["initial_config"], frozenset(places.STATELESS_CLASSES))
    methods = {name: method for each in classes.values() for name, method in inspect.getmembers(each)}
    calls = tuple(_planned(text, methods) for turn in turns for text in turn)
    return Task(entry["id"], calls, begin)


def _class(name: str, places: Any) -> type:
    found: type = getattr(importlib.import_module(places.CLASS_FILE_PATH_MAPPING[name]), name)
    return found


def _begin(classes: dict[str, type], config: dict[str, Any], stateless: frozenset[str]) -> list[object]:
    objects: list[Any] = []
    for name, kind in classes.items():
        fresh = kind()
        if name not in stateless:
            fresh._load_scenario(copy.deepcopy(config.get(name, {})), long_context=False)  # noqa: SLF001 - how the data set loads a task
        objects.append(fresh)
    return objects


def _planned(text: str, methods: dict[str, Any]) -> Planned:
    """Read ``mv(source='a', destination='b')``. All arguments of the data set are literals."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise TypeError(f"no call: {text}")
    given = [ast.literal_eval(value) for value in call.args]
    named = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    bound = inspect.signature(methods[call.func.id]).bind(None, *given, **named)  # None for self
    bound.apply_defaults()
    return Planned(call.func.id, dict(list(bound.arguments.items())[1:]))
