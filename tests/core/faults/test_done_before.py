"""What was done before the step that failed: rows that committed by themselves, a copy, an operation that was begun."""

import errno
import shutil
from types import SimpleNamespace

import pytest

from settled.core.model import Evidence
from tests.core.faults.fakes import fake, made, through
from tests.core.faults.test_walk import evidence


class Committing:
    """A connection, with its ways to say whether each statement commits by itself; and what holds one."""

    def __init__(self, by_itself, **more):
        self.autocommit, self.connection = by_itself, self
        self.get_autocommit = self._is_autocommit_isolation = lambda: by_itself
        vars(self).update(more)


ROWS = {
    "psycopg2.extras.execute_batch": ("cur", {"argslist": [1, 2, 3], "page_size": 2}),
    "psycopg2.extras.execute_values": ("cur", {"argslist": iter(()), "page_size": 100}),
    "psycopg._cursor_base._executemany_gen_no_pipeline": ("self", {}),
    "pymysql.cursors.executemany": ("self", {}),
    "aiomysql.cursors.executemany": ("self", {}),
    "MySQLdb.cursors.executemany": ("self", {}),
    "mysql.connector.cursor.executemany": ("self", {}),
    "sqlalchemy.engine.base._exec_insertmany_context": ("self", {"imv_batch": SimpleNamespace(batchnum=2)}),
}


@pytest.mark.parametrize("path", ROWS)
@pytest.mark.parametrize(
    "error", [made("psycopg.errors.UniqueViolation", bases=(fake("psycopg.Error"),), sqlstate="23505")]
)
def test_of_many_rows_that_commit_one_by_one_those_before_may_be_there(path, error):
    holder, more = ROWS[path]
    for by_itself, proved in ((True, Evidence.MAYBE), (None, Evidence.MAYBE), (False, Evidence.NONE)):
        assert evidence(through(path, error.with_traceback(None), **{holder: Committing(by_itself)}, **more)) is proved
    assert evidence(through(f"shop.{path}", error.with_traceback(None), **{holder: Committing(True)})) is Evidence.NONE


def test_the_first_of_such_rows_are_the_only_ones():
    path, error = "psycopg2.extras.execute_values", made("psycopg2.Error", pgcode="23505")
    known = {"cur": Committing(True), "argslist": [1, 2], "page_size": 100}
    assert evidence(through(path, error, **known)) is Evidence.NONE
    path, error = "sqlalchemy.engine.base._exec_insertmany_context", made("psycopg2.Error", pgcode="23505")
    assert evidence(through(path, error, self=Committing(True), imv_batch=SimpleNamespace(batchnum=1))) is Evidence.NONE


@pytest.mark.parametrize(
    "path", ["google.api_core.future.polling.result", "google.api_core.future.async_future.result"]
)
def test_what_went_wrong_with_an_operation_that_was_begun_is_no_refusal_of_it(path):
    for status in (400, 403, 404, 429):
        error = made("google.api_core.exceptions.GoogleAPICallError", code=status)
        assert evidence(error) is Evidence.NONE
        assert evidence(through(path, error, self=SimpleNamespace(_blocking_poll=print))) is Evidence.MAYBE
        # of a message that was published
        error = made("google.api_core.exceptions.GoogleAPICallError", code=status)
        assert evidence(through(path, error, self=SimpleNamespace())) is Evidence.NONE


def test_a_file_that_was_moved_and_cannot_be_taken_away_is_there_twice(tmp_path, monkeypatch):
    """Its folder may be read, and not be written to: then it cannot be renamed either."""

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("os.rename", "os.unlink"):
        monkeypatch.setattr(name, refuse)
    (tmp_path / "here").write_text("words")
    with pytest.raises(PermissionError) as caught:
        shutil.move(tmp_path / "here", tmp_path / "there")
    assert (tmp_path / "there").read_text() == "words"
    assert evidence(caught.value) is Evidence.MAYBE
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError) as caught:
        shutil.move(tmp_path / "here", tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    assert evidence(caught.value) is Evidence.NONE
