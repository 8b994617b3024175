"""mutmut's part: a copy of the project with every bug in it, each switched off until it is named."""

import json
import os
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

FOLDER = Path("mutants")
CORE = FOLDER / "src" / "settled" / "core"


def plant() -> None:
    """Write the copy; what has not changed since the last time is left as it is."""
    os.environ["MUTANT_UNDER_TEST"] = "mutant_generation"
    from mutmut import __main__ as mutmut  # noqa: PLC0415 - it reads its settings from the folder that it is imported in

    FOLDER.mkdir(exist_ok=True)
    with redirect_stdout(StringIO()):  # it names every file
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.create_mutants(os.cpu_count() or 1)


def refused_by_types() -> set[str]:
    """Return the mutants that are no well-typed programs: the type check before each commit stops those."""
    from mutmut.mutation.file_mutation import filter_mutants_with_type_checker  # noqa: PLC0415 - as above

    return set(filter_mutants_with_type_checker())


def mutants(modules: list[str]) -> Iterator[str]:
    """Yield the names of all mutants, or of those of some modules (``match``, ``faults.rules``)."""
    for meta in sorted(CORE.rglob("*.meta")):
        names = list(json.loads(meta.read_text())["exit_code_by_key"])
        yield from (name for name in names if not modules or module_of(name) in modules)


def module_of(mutant: str) -> str:
    """Return the module within the core that a mutant is planted in."""
    return mutant.removeprefix("settled.core.").rpartition(".")[0]


def in_the_copy() -> chdir[Path]:
    """Work in the copy."""
    return chdir(FOLDER)
