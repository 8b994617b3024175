"""Wrong uses of the public names: mypy and pyright refuse each.

Each line carries both checkers' ignores. Either one is an error where it is not needed, so a wrong use that a checker
lets pass fails the lint run.
"""

import settled

settled.no_such_name  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
