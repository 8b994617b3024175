"""Right uses of the public names: mypy and pyright accept each, and see the types that are written here."""

from typing import assert_type

import settled

assert_type(settled.__name__, str)
