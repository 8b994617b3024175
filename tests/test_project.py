"""What the project promises of its own files, and no tool checks."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import settled
from tests.shared import ROOT

SOURCE = ROOT / "src" / "settled"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = sorted((ROOT / "requirements").glob("*.txt"))

FRAMEWORKS = ["langchain", "openai-agents", "pydantic-ai"]
IMPURE_MODULES = {
    *("asyncio", "concurrent", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets"),
    *("select", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time"),
    *("urllib.request", "uuid", "importlib"),
}
PURE_NAMES = {"uuid.UUID"}  # a type that values can have; it throws no dice by itself
CLOCK_READS = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter"}
IMPURE_BUILTINS = {"open", "print", "input", "breakpoint", "__import__", "eval", "exec"}
LONGEST_FUNCTION = 40
LONGEST_ADAPTER = 150

# Written in pieces, so that this file does not hold what it looks for.
REGISTRY_HOSTS = [
    *("py" + "pi.org", "python" + "hosted.org", "registry.npm" + "js.org", "npm" + "js.com", "yarn" + "pkg.com"),
    *("static.crates" + ".io", "index.crates" + ".io", "proxy.go" + "lang.org", "deb.debian" + ".org"),
]
MACHINE_PATHS = re.compile(rb"(?<![\w.~-])/(?:" + b"|".join([b"wo" + rb"rk", b"ro" + rb"ot", b"Us" + rb"ers"]) + rb")/")


def modules(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (SOURCE / package).rglob("*.py"))


def named(paths):
    return pytest.mark.parametrize("path", paths, ids=[str(path.relative_to(ROOT)) for path in paths])


# --- the pure core ---


def impurities(source: str) -> list[str]:
    """Name what reads a clock, throws dice or touches the world, however it is written."""
    return [found for node in ast.walk(ast.parse(source)) if (found := impurity(node))]


def impurity(node: ast.AST) -> str | None:
    match node:
        case ast.Import(names=names):
            return first_impure(alias.name for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return first_impure({f"{module}.{alias.name}" for alias in names} - PURE_NAMES)
        case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCK_READS:
            return f".{name}()"
        case ast.Call(func=ast.Name(id=name)) if name in IMPURE_BUILTINS:
            return f"{name}()"
        case _:
            return None


def first_impure(names) -> str | None:
    return next((name for name in names if any((name + ".").startswith(bad + ".") for bad in IMPURE_MODULES)), None)


@named(modules("core"))
def test_core_has_no_clock_no_dice_and_no_io(path):
    assert impurities(path.read_text()) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", "time"),
        ("import os.path as p", "os.path"),
        ("from urllib.request import urlopen", "urllib.request.urlopen"),
        ("from urllib import request", "urllib.request"),
        ("from random import random", "random.random"),
        ("from uuid import UUID, uuid4", "uuid.uuid4"),
        ("def f():\n    import uuid", "uuid"),
        ("from datetime import datetime\nat = datetime.now(UTC)", ".now()"),
        ("import datetime\nat = datetime.datetime.utcnow()", ".utcnow()"),
        ("from datetime import date as d\nat = d.today()", ".today()"),
        ("__import__('time')", "__import__()"),
        ("print(1)", "print()"),
    ],
)
def test_the_check_sees_impurity(source, found):
    assert impurities(source) == [found]


@pytest.mark.parametrize("source", ["import datetime", "from uuid import UUID", "from .time import x", "now(at)"])
def test_the_check_lets_pure_code_pass(source):
    assert impurities(source) == []


# --- code as it reads ---


@named(modules("core", "drivers"))
def test_no_function_is_longer_than_a_page(path):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]
    assert [f.name for f in functions if f.end_lineno - f.lineno + 1 > LONGEST_FUNCTION] == []


@named(modules("."))
def test_every_lint_exception_gives_its_reason(path):
    exception = re.compile(
        r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)\b(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|\[[^]]*])?"
    )
    lines = path.read_text().splitlines()
    bare = [
        line.strip()
        for line in lines
        if exception.search(line) and not re.search(r"\w", exception.sub("", line[line.index("#") :]))
    ]
    assert bare == []


def test_every_ignored_rule_gives_its_reason():
    text = (ROOT / "pyproject.toml").read_text()
    ruff = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.flake8-type-checking]")]
    ignored = re.findall(r'^    "[A-Z]+\d*",.*$', ruff, re.MULTILINE)
    assert ignored
    assert [line.strip() for line in ignored if not re.search(r",\s+# \w", line)] == []


def test_public_names_are_sorted_and_there():
    listed = list(getattr(settled, "__all__", []))
    assert listed == sorted(set(listed))
    assert [name for name in listed if not hasattr(settled, name)] == []


def test_the_package_says_that_it_is_typed():
    assert (SOURCE / "py.typed").is_file()


# --- the clone ---


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_file_names_a_registry_or_a_path_of_one_machine():
    hosts = re.compile(b"|".join(re.escape(host.encode()) for host in REGISTRY_HOSTS))
    files = tracked()
    assert ROOT / "pyproject.toml" in files
    assert [path for path in files if hosts.search(path.read_bytes())] == []
    assert [path for path in files if MACHINE_PATHS.search(path.read_bytes())] == []


def test_dev_py_parses_on_old_pythons():
    tree = ast.parse((ROOT / "dev.py").read_text(), feature_version=(3, 4))
    young = ast.JoinedStr | ast.AnnAssign | ast.NamedExpr | ast.Match | ast.AsyncFunctionDef | ast.Nonlocal
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, young)] == []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    parameters = [parameter for f in functions for parameter in [*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs]]
    assert [f.name for f in functions if f.returns or f.args.kwonlyargs or f.args.posonlyargs] == []
    assert [parameter.lineno for parameter in parameters if parameter.annotation] == []


# --- the pins ---


def pinned(path: Path) -> dict[str, list[tuple[Requirement, list[str]]]]:
    """Read a file of pins: each package's requirements with their digests; several where systems differ."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    found = {}
    for words in (entry.split() for entry in text.replace("\\\n", " ").splitlines() if entry.strip()):
        digests = [word for word in words if word.startswith("--hash=")]
        requirement = Requirement(" ".join(word for word in words if word not in digests))
        found.setdefault(canonicalize_name(requirement.name), []).append((requirement, digests))
    return found


def declared(pins: str) -> list[Requirement]:
    """Return what pyproject.toml declares for a set of pins."""
    framework = pins.removesuffix("-lowest")
    if framework in FRAMEWORKS:
        texts = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"][framework]]
        return [Requirement(text) for text in texts + PROJECT["dependency-groups"]["adapters"]]
    every = ["demo", "encryption", "postgres"]
    extras = {"demo": ["demo"], "test": every, "dev": every, "bench": []}[pins]
    sets = {"demo": ["build"], "test": ["build", "test"], "dev": ["build", "test", "lint", "mutation"]}
    groups = {**sets, "bench": ["bench"]}[pins]
    texts = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"] * (pins != "bench")]
    texts += [text for extra in extras for text in PROJECT["project"]["optional-dependencies"][extra]]
    texts += [text for group in groups for text in PROJECT["dependency-groups"][group]]
    return [Requirement(text) for text in texts]


def test_the_sets_of_pins_are_the_known_ones():
    of_frameworks = [name + version for name in FRAMEWORKS for version in ("", "-lowest")]
    assert {path.stem for path in PINS} == {"bench", "demo", "dev", "test", *of_frameworks}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_lowest_pins_of_a_framework_are_the_lowest_that_it_is_declared_for(name):
    pins = pinned(ROOT / "requirements" / f"{name}-lowest.txt")
    for text in PROJECT["project"]["optional-dependencies"][name]:
        wanted = Requirement(text)
        ((pin, _),) = pins[canonicalize_name(wanted.name)]
        assert Version(str(pin.specifier).removeprefix("==")) == Version(str(wanted.specifier).removeprefix(">="))


@named(PINS)
def test_every_package_is_pinned_to_one_version_with_digests(path):
    pins = [pin for several in pinned(path).values() for pin in several]
    assert len(pins) > 10
    for requirement, digests in pins:
        assert re.fullmatch(r"==[\w.!+]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert digests
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", digest) for digest in digests), requirement


@named(PINS)
def test_pins_name_no_address(path):
    text = path.read_text()
    assert "://" not in text
    assert not re.search(r"--(?:extra-)?index-url|--find-links|--trusted-host", text)


@named(PINS)
def test_pins_fit_what_the_project_declares(path):
    entries = pinned(path)
    for wanted in declared(path.stem):
        versions = [str(pin.specifier).removeprefix("==") for pin, _ in entries[canonicalize_name(wanted.name)]]
        fits = [wanted.specifier.contains(version) for version in versions]
        # A requirement with a marker speaks of some systems, and so of one of several pins.
        assert any(fits) if wanted.marker else all(fits), f"{wanted}, pinned {versions}: run `python3 dev.py pins`"


def test_the_sets_agree_on_every_version():
    everything = pinned(ROOT / "requirements" / "dev.txt")
    for path in PINS:
        if path.stem in ("demo", "test", "dev"):  # the others have environments of their own
            assert {name: everything[name] for name in pinned(path)} == pinned(path)


# --- the adapters ---


@named([SOURCE / "adapters" / f"{name.replace('-', '_')}.py" for name in FRAMEWORKS])
def test_an_adapter_is_one_small_file(path):
    assert len(path.read_text().splitlines()) <= LONGEST_ADAPTER


def test_nothing_but_an_adapter_imports_a_framework():
    code = "import sys, settled, settled.cli, settled.adapters.neutral; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert not loaded & {"agents", "langchain", "langchain_core", "langgraph", "pydantic_ai"}
