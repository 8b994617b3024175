"""From ``module:guard`` to a guard, with a clear word for each thing that can go wrong on the way."""

import importlib
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from settled.api.guard import Guard
from settled.api.opening import existing_only
from settled.api.tools.tool import Tool
from settled.cli.exits import Exit, Problem
from settled.errors import JournalError


def load_guard(reference: str) -> Guard:
    """Return the guard that ``module:attribute`` names, importing from the current directory first.

    What the app prints meanwhile goes to stderr, and no journal is created.
    """
    module_name, colon, path = reference.partition(":")
    if not colon or not module_name or not path:
        raise Problem(Exit.USAGE, f"--app is module:guard, as in --app shop:guard; {reference!r} is not")
    with redirect_stdout(sys.stderr), existing_only():
        found = _attribute(_module(module_name), path)
        return _guard(found, reference)


def _module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except JournalError as error:
        raise Problem(Exit.JOURNAL, str(error)) from error
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise Problem(Exit.LOADING, f"there is no module {name!r} in {here} or on Python's path") from error
        raise _raised(f"importing {name}", error) from error
    except (Exception, SystemExit) as error:
        raise _raised(f"importing {name}", error) from error


def _raised(doing: str, error: BaseException) -> Problem:
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename and f.filename != __file__
    ]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return Problem(Exit.LOADING, f"{doing} raised {type(error).__name__}: {error}{place}")


def _attribute(module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            guards = sorted(n for n, value in vars(module).items() if isinstance(value, Guard))
            hint = f"; it has these guards: {', '.join(guards)}" if guards else ""
            raise Problem(Exit.LOADING, f"{module.__name__} has no {path!r}{hint}") from None
    return found


def _guard(found: Any, reference: str) -> Guard:
    if isinstance(found, Guard):
        return found
    if isinstance(found, Tool):  # to call it would be to do what it does
        module = reference.partition(":")[0]
        raise Problem(Exit.LOADING, f"{reference} is a tool: name the guard that it belongs to, as in {module}:guard")
    if callable(found):
        try:
            found = found()
        except JournalError as error:
            raise Problem(Exit.JOURNAL, str(error)) from error
        except (Exception, SystemExit) as error:
            raise _raised(f"calling {reference}", error) from error
    if not isinstance(found, Guard):
        kind = type(found).__name__
        raise Problem(Exit.LOADING, f"{reference} is a {kind}, neither a settled.Guard nor a function that returns one")
    return found
