"""A load of several processes on one journal, each of which may be killed: ``python -m tests.outage.load URL FOLDER``.

All processes ask for the same orders, each in an order of its own. What truly happened stands in the ledger, what each
process was told in files of its own, and who was killed in a file of the parent's.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import settled
from settled.testing.kill.ledger import Effect, Ledger, append

LASTING = ("succeeded", "failed", "unknown", "conflict", "expired")
"""What an order need not be asked for again after."""


class Mine(threading.local):
    """A thread's own effects."""

    def __init__(self):
        self.orders = set()


def serve(ledger, mine):
    """Return a guard's tool over the ledger."""

    def pay(order: str) -> str:
        effect = Effect("pay", order, settled.current_call().key, f"{order} {os.urandom(4).hex()}")
        time.sleep(0.001)
        ledger.write(effect)
        mine.orders.add(order)
        time.sleep(0.001)
        return effect.value

    return pay


def work(url, folder, keys, seed, threads):
    """Ask for every order until it is told for good."""
    ledger, mine = Ledger(folder / "ledger"), Mine()
    told = folder / f"told-{os.getpid()}"
    with opened(url) as guard:
        pay = guard.tool(effect="write", key="{order}", breaker=None)(serve(ledger, mine))
        orders = [f"order {number}" for number in range(keys)]
        random.Random(seed).shuffle(orders)
        shares = [orders[number::threads] for number in range(threads)]
        hands = [threading.Thread(target=ask, args=(pay, share, told, ledger, mine)) for share in shares]
        for hand in hands:
            hand.start()
        for hand in hands:
            hand.join()
    (folder / f"done-{os.getpid()}").touch()


def opened(url, patience=60.0):
    """Open the guard, also while its server is away."""
    end = time.monotonic() + patience
    while True:
        try:
            return settled.Guard(url, lease=2.0)
        except settled.JournalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def ask(pay, orders, told, ledger, mine):
    """Ask for each order, and again for those that were told nothing lasting.

    With what is told stands whether the effect had surely happened by then.
    """
    end, open_orders = time.monotonic() + 90.0, list(orders)
    while open_orders and time.monotonic() < end:
        order = open_orders.pop(0)
        before = bool(ledger.of(order))
        try:
            result = pay.options(wait=1.0).call(order)
        except settled.JournalError:
            open_orders.append(order)
            time.sleep(0.05)
            continue
        value = result.value if result.ok else None
        append(told, json.dumps([order, result.status, value, before or order in mine.orders]))
        if result.status not in LASTING:
            open_orders.append(order)


def child(options, folder, seed):
    """Fork one process that works; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    threading.excepthook = lambda end: append(folder / "failed", "".join(traceback.format_exception(end.exc_value)))
    try:
        work(options.url, folder, options.keys, seed, options.threads)
        code = 0
    except BaseException:  # noqa: BLE001 - the parent looks
        append(folder / "failed", traceback.format_exc())
    finally:
        os._exit(code)


def main():
    """Keep the processes at work, kill some of them, and wait for the others."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder, dice, kills = options.folder, random.Random(options.seed), options.kills
    alive = {child(options, folder, seed) for seed in range(options.processes)}
    print("ready", flush=True)
    try:
        while alive:
            time.sleep(dice.uniform(0.02, 0.12) if kills else 0.02)
            if kills:
                alive.discard(killed(dice.choice(sorted(alive)), folder))
                alive.add(child(options, folder, dice.random()))
                kills -= 1
            while pid := os.waitpid(-1, os.WNOHANG)[0] if alive else 0:
                alive.discard(pid)
                if kills:
                    alive.add(child(options, folder, dice.random()))
    finally:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    sys.exit(1 if (folder / "failed").exists() else 0)


def killed(pid, folder):
    """Kill a process and note it; return its id when it is gone."""
    append(folder / "killed", str(pid))
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[0]


if __name__ == "__main__":
    main()
