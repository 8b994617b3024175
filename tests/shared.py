"""Where the tests find the reference material: test vectors, samples of real answers, cases from the field."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def shared(path: str) -> Path:
    """Return the reference file or folder of that name.

    It lies in the folder that SETTLED_SHARED names, else in tests/data, else in the folder shared beside the clone.

    Raises:
        FileNotFoundError: It is in none of them.
    """
    named = os.environ.get("SETTLED_SHARED")
    folders = [Path(named)] if named else [ROOT / "tests" / "data", ROOT.parent / "shared"]
    for folder in folders:
        if (folder / path).exists():
            return folder / path
    looked = ", ".join(str(folder) for folder in folders)
    raise FileNotFoundError(f"no {path} in {looked}; SETTLED_SHARED can name the folder that has it")
