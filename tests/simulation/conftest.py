"""What the tests of planted bugs share."""

import pytest

from settled.testing.simulate import simulate

MOST_SEEDS = 300


@pytest.fixture
def seen(monkeypatch):
    """Return a check: with the bug in place the oracle objects in all of these words; without it nothing is wrong."""

    def check(profile, *words):
        for seed in range(MOST_SEEDS):
            if any(all(word in v for word in words) for v in simulate(seed, profile).violations):
                break
        else:
            pytest.fail(f"{MOST_SEEDS} worlds, and the bug was not seen")
        monkeypatch.undo()
        assert [v for clean in range(seed + 1) for v in simulate(clean, profile).violations] == []

    return check
