#!/usr/bin/env python3
"""One command for each task in a fresh clone: the virtual environment .venv is made and kept up to date on the way.

    python3 dev.py demo [...]       run the demo (`settled demo ...`)
    python3 dev.py test [...]       run the tests (`pytest ...`)
    python3 dev.py adapters [...]   run the adapters' tests at the lowest and the newest version of each framework
    python3 dev.py lint             check format, lint rules, types and import rules
    python3 dev.py check [...]      lint, then test
    python3 dev.py mutation [...]   let mutmut plant bugs in the core and list those that no test finds
    python3 dev.py pins [...]       pin the requirements anew (`--upgrade`: with the newest versions)

Needs Python 3.11 or newer with pip (or ensurepip), and the package registry that pip is set up for.
"""
# Standard library only, and no syntax younger than Python 2.7: an old Python must come as far as the message that it
# is too old.

from __future__ import print_function

import contextlib
import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

try:
    import fcntl
except ImportError:  # this system has no such locks: two commands at once are the user's to avoid
    fcntl = None

OLDEST = (3, 11)
OLDEST_PIP = (22, 3)  # the first that installs into another Python's environment
ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
LOCK = os.path.join(ROOT, ".dev-lock")
OURS = os.path.join(VENV, "made-by-dev.py")  # there from the first moment; what lacks it is not ours to delete
STAMP = os.path.join(VENV, "installed")  # there only while the environment is whole: "<set> <digest>"

# The pinned sets, each with all that the one before has: what of pyproject.toml goes into it.
SETS = ["demo", "test", "dev"]
SOURCES = {
    "demo": ["--extra=demo", "--group=build"],
    "test": [
        "--extra=alerts",
        "--extra=demo",
        "--extra=encryption",
        "--extra=postgres",
        "--extra=redis",
        "--group=build",
        "--group=test",
    ],
    "dev": ["--extra=alerts", "--extra=demo", "--extra=encryption", "--extra=postgres", "--extra=redis"]
    + ["--group=build", "--group=test", "--group=lint", "--group=mutation"],
}
APART = {"bench": ["--group=bench"]}  # sets of an environment that dev.py does not make
# The agent frameworks: each has two environments of its own, with its lowest and its newest version, for its adapter.
FRAMEWORKS = {
    "langchain": ["--extra=langchain", "--group=adapters", "--group=langgraph-store"],
    "openai-agents": ["--extra=openai-agents", "--group=adapters"],
    "pydantic-ai": ["--extra=pydantic-ai", "--group=adapters"],
}
LOWEST = "-lowest"
ADAPTERS = os.path.join(ROOT, ".adapters")
# On all cores, which take tests from each other once they have none left; no test may take longer than five minutes.
PYTEST = ["-m", "pytest", "--numprocesses=auto", "--dist=worksteal", "--timeout=300"]
SIGNALLED = 128  # plus the signal's number: the exit code of what ended by a signal
# Settings that would lead pip or Python away from the virtual environment.
MISLEADING = ["PIP_PREFIX", "PIP_REQUIRE_HASHES", "PIP_ROOT", "PIP_TARGET", "PYTHONHOME", "PYTHONPATH"]


class Stop(Exception):  # noqa: N818 - it ends the command; whose error it is, the text tells
    """The command can't go on; the text tells why and what to do."""


def main(arguments):
    """Run the command that `arguments` name, and return its exit code."""
    demand_python()
    name, rest = (arguments[0], arguments[1:]) if arguments else ("help", [])
    if name in ("help", "-h", "--help"):
        print(__doc__.strip())
        return 0
    if name not in COMMANDS:
        raise Stop("there is no command '%s'. The commands are: %s." % (name, ", ".join(sorted(COMMANDS))))
    os.chdir(ROOT)
    return COMMANDS[name](rest)


# ------------------------------------------------------------------------------------------------------- the commands


def demo(arguments):
    """Run the demo."""
    with installed("demo"):
        return run([tool("settled"), "demo"] + arguments)


def test(arguments):
    """Run the tests."""
    with installed("test"):
        return run([tool("python")] + PYTEST + arguments)


def lint(arguments):
    """Run every static check, also when an earlier one found something."""
    if arguments:
        raise Stop("lint takes no arguments.")
    checks = [["ruff", "format", "--check", "."], ["ruff", "check", "."], ["mypy"], ["basedpyright"], ["lint-imports"]]
    with installed("dev"):
        failed = [" ".join(words) for words in checks if announced(words)]
    say("lint: %s" % ("failed: " + ", ".join(failed) if failed else "all checks passed"))
    return 1 if failed else 0


def check(arguments):
    """Run every static check and the tests."""
    return max([lint([]), test(arguments)])


def adapters(arguments):
    """Run the adapters' tests in each framework's environments, also when an earlier one found something."""
    failed = []
    for name in sorted(FRAMEWORKS):
        for version in (name + LOWEST, name):
            with open(LOCK, "a") as lock:
                os.set_inheritable(lock.fileno(), True)  # noqa: FBT003 - as in installed()
                hold(lock, alone=True)
                python = framework(version)
                hold(lock, alone=False)
                say("the adapter's tests with " + pinned(version))
                tests = glob.glob(os.path.join(ROOT, "tests", "adapters", "test_%s*.py" % name.replace("-", "_")))
                command = [python] + PYTEST + sorted(tests)
                paths = os.pathsep.join([os.path.join(ROOT, "src"), ROOT])
                failed += [version] if run(command + arguments, {"PYTHONPATH": paths}) else []
    say("adapters: %s" % ("failed: " + ", ".join(failed) if failed else "all passed"))
    return 1 if failed else 0


def framework(version):
    """Make sure that the environment of a framework's version is there; return its Python."""
    folder = os.path.join(ADAPTERS, version)
    python, sign = os.path.join(folder, "bin", "python"), os.path.join(folder, "installed")
    with open(pinned(version)) as file:
        made_from = hashlib.sha256((sys.version + file.read()).encode()).hexdigest()
    with contextlib.suppress(OSError), open(sign) as file:
        if file.read() == made_from:
            return python
    shutil.rmtree(folder, ignore_errors=True)
    say("installing the packages of %s (once; the next time is quick)" % pinned(version))
    pip = make_environment(folder) + ["install", "--no-input", "--disable-pip-version-check", "--quiet"]
    must(pip + ["--require-hashes", "--only-binary=:all:", "-r", pinned(version)], REGISTRY)
    write_whole(sign, made_from)
    return python


def mutation(arguments):
    """Let mutmut plant bugs in the core, count how they died, and list those that no test found."""
    with installed("dev"):
        return run([tool("python"), "-m", "tests.mutation"] + arguments)


def pins(arguments):
    """Write requirements/*.txt anew from pyproject.toml."""
    folder = tempfile.mkdtemp(prefix="settled-pins-")
    try:
        say("installing uv, which does the pinning, for this one use")
        pip = make_environment(folder)
        must(pip + ["install", "--quiet", "uv"], REGISTRY)
        uv = os.path.join(folder, "bin", "uv")
        for name in list(reversed(SETS)) + sorted(APART):  # the largest first: it rules the versions of the others
            pin(uv, name, SOURCES[name] if name in SETS else APART[name], arguments)
        for name in sorted(FRAMEWORKS):
            pin(uv, name, FRAMEWORKS[name], arguments)
            lowest = ["--resolution=lowest-direct", "--constraint=" + pinned("demo")]  # the rest as everywhere
            pin(uv, name + LOWEST, FRAMEWORKS[name], arguments + lowest)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


COMMANDS = {
    "adapters": adapters,
    "demo": demo,
    "test": test,
    "lint": lint,
    "check": check,
    "mutation": mutation,
    "pins": pins,
}


def pin(uv, name, sources, options):
    """Pin one set: every package with its version and the digests of all its files, for all systems and Pythons."""
    say("pinning %s" % pinned(name))
    command = [uv, "pip", "compile", "pyproject.toml", "--quiet", "--universal", "--generate-hashes", "--no-annotate"]
    command += ["--python-version=3.11", "--custom-compile-command=python3 dev.py pins", "-o", pinned(name)]
    command += ["--constraint=" + pinned("dev")] if name in SETS + sorted(APART) and name != "dev" else []
    command += sources
    must(command + options, "uv could not pin the requirements; its message stands above.")


# ---------------------------------------------------------------------------------------------- the virtual environment


@contextlib.contextmanager
def installed(wanted):
    """Make sure that .venv has the set `wanted`, and that no other command rebuilds it meanwhile."""
    with open(LOCK, "a") as lock:
        os.set_inheritable(lock.fileno(), True)  # noqa: FBT003 - C takes it by position; for must()
        hold(lock, alone=False)
        while not is_installed(wanted):
            hold(lock, alone=True)
            if not is_installed(wanted):  # another command may just have done it
                install(wanted)
            hold(lock, alone=False)
        yield


def hold(lock, alone):
    """Hold the clone's lock, alone (to change .venv) or with others (to use it)."""
    if fcntl is None:
        return
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except OSError:
        say("waiting for another dev.py of this clone to end")
        fcntl.flock(lock, kind)


def is_installed(wanted):
    """Tell whether .venv is whole, made from today's files, and has at least the set `wanted`."""
    present = stamp()
    return present is not None and SETS.index(present) >= SETS.index(wanted)


def stamp():
    """Return the name of the set that .venv has, or None if it is missing, half made or out of date."""
    try:
        with open(STAMP) as file:
            name, made_from = file.read().split()
    except (OSError, ValueError):
        return None
    whole = made_from == digest() and name in SETS and os.access(tool("python"), os.X_OK)
    return name if whole else None


def digest():
    """Return a digest of all that .venv is made from: this Python, this folder, the pins, the project's own data."""
    import tomllib  # noqa: PLC0415 - an old Python has none, and must come as far as the message for it

    with open("pyproject.toml", "rb") as file:
        declared = tomllib.load(file)
    parts = [sys.version, sys.base_prefix, ROOT, repr(declared["project"]), repr(declared["build-system"])]
    for name in SETS:
        with open(pinned(name)) as file:
            parts.append(file.read())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def install(wanted):
    """Bring .venv to the set `wanted`: from nothing, unless a smaller set of the same make is there already."""
    if stamp() is None:
        sweep()
        say("making .venv for Python %d.%d.%d" % sys.version_info[:3])
        claim_folder()
        pip = make_environment(VENV)
    else:
        os.remove(STAMP)
        pip = find_pip(VENV)
    say("installing the packages of %s (once; the next time is quick)" % pinned(wanted))
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    pip += ["install", "--no-input", "--disable-pip-version-check"] + quiet
    must(pip + ["--require-hashes", "--only-binary=:all:", "-r", pinned(wanted)], REGISTRY)
    must(pip + ["--no-deps", "--no-build-isolation", "-e", "."], "settled itself could not be installed; see above.")
    write_whole(STAMP, "%s %s\n" % (wanted, digest()))


def claim_folder():
    """Make the folder .venv in one step with the sign that it is ours."""
    fresh = tempfile.mkdtemp(prefix=".venv-new-", dir=ROOT)
    with open(os.path.join(fresh, os.path.basename(OURS)), "w"):
        os.rename(fresh, VENV)


def sweep():
    """Take away an old .venv, and what a command killed in the middle left behind."""
    if os.path.lexists(VENV):
        if not os.path.exists(OURS):
            raise Stop("%s was not made by dev.py. Move it away or delete it, then run this again." % VENV)
        os.rename(VENV, tempfile.mkdtemp(prefix=".venv-old-", dir=ROOT))  # in one step: never half an .venv
    for left in glob.glob(os.path.join(ROOT, ".venv-*")):
        shutil.rmtree(left)


def make_environment(folder):
    """Make a virtual environment in `folder` and return the start of a pip command for it."""
    must([sys.executable, "-m", "venv", "--without-pip", folder], "This Python can't make virtual environments.")
    return find_pip(folder)


def find_pip(folder):
    """Return the start of a pip command for the environment in `folder`.

    The pip of the Python that runs this serves where there is one: a system Python without ensurepip has nothing
    else, and one that refuses to be changed by pip lets it change other environments.
    """
    target = os.path.join(folder, "bin", "python")
    if pip_version(sys.executable) >= OLDEST_PIP:
        return [sys.executable, "-m", "pip", "--python", target]
    if pip_version(target) == (0, 0):
        must([target, "-m", "ensurepip"], NO_PIP)
    return [target, "-m", "pip"]


def pip_version(python):
    """Return the first two numbers of the version of that Python's pip; zeros if it has none."""
    asked = subprocess.Popen(
        [python, "-m", "pip", "--version"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    found = re.match(r"pip (\d+)\.(\d+)", asked.communicate()[0].decode(errors="replace"))
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def write_whole(path, text):
    """Write a file so that it is there whole or not at all."""
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def pinned(name):
    """Return the path of the file that pins the set `name`."""
    return "requirements/%s.txt" % name


def tool(name):
    """Return the path of a program in .venv."""
    return os.path.join(VENV, "bin", name)


# ------------------------------------------------------------------------------------------------------ other processes


def run(command, more=None):
    """Run a command to its end and return its exit code; stop it when this process is told to stop."""
    process = subprocess.Popen(command, env=dict(environment(), **(more or {})))
    before = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    try:
        while process.poll() is None:
            with contextlib.suppress(KeyboardInterrupt):  # the terminal has told the command too; let it end its way
                process.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    return process.returncode if process.returncode >= 0 else SIGNALLED - process.returncode


def announced(words):
    """Say which check comes, run it, and return its exit code."""
    say("$ " + " ".join(words))
    return run([tool(words[0])] + words[1:])


def must(command, otherwise):
    """Run a step of the set-up, beside the command's own output; no part of it outlives this process's end by signal.

    The step inherits the lock: should this process be killed outright, the next waits for the step to end.
    """
    process = subprocess.Popen(command, env=environment(), stdout=sys.stderr, start_new_session=True, close_fds=False)
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(SIGNALLED + number))
    try:
        code = process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        signal.signal(signal.SIGTERM, before)
    if code:
        raise Stop(otherwise)


def environment():
    """Return the environment for other processes: the caller's, with the programs of .venv first."""
    found = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    found["PATH"] = os.path.dirname(tool("")) + os.pathsep + found.get("PATH", os.defpath)
    found["PIP_USER"] = "0"
    found["VIRTUAL_ENV"] = VENV
    return found


def say(text):
    """Tell what is being done, beside the output of the command itself."""
    print("dev.py: " + text, file=sys.stderr)
    sys.stderr.flush()


# ------------------------------------------------------------------------------------------- what can stand in the way

REGISTRY = """The packages could not be installed; pip's own message stands above.
If no package registry could be reached: look at the network and the proxy, and at `python3 -m pip config list`
(a mirror is set by the environment variable PIP_INDEX_URL). Then run the same command again."""

NO_PIP = (
    """This Python has neither pip (%d.%d or newer) nor ensurepip, and one of them is needed.
On Debian and Ubuntu `apt install python3-pip` brings pip. Then run the same command again."""
    % OLDEST_PIP
)


def demand_python():
    """Stop with a clear message if this Python is too old."""
    if sys.version_info >= OLDEST:
        return
    names = ["python3.%d" % minor for minor in range(19, OLDEST[1] - 1, -1)]
    folders = os.environ.get("PATH", "").split(os.pathsep)
    newer = [name for name in names if any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)]
    advice = "Use one that is here: %s dev.py ..." % newer[0] if newer else "Install a newer one, or name it in full."
    raise Stop("settled needs Python %d.%d or newer; this is %d.%d. %s" % (OLDEST + sys.version_info[:2] + (advice,)))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Stop as stop:
        say(str(stop))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(SIGNALLED + signal.SIGINT)
