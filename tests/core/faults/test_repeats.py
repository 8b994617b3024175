"""Requests that a client makes one after another, and errors out of another process: what their way here tells."""

import concurrent.futures
import errno
import multiprocessing
import shutil
import socket
import ssl
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import anyio
import anyio.to_process
import httpx
import pytest

from settled.core.faults import classify
from settled.core.model import Evidence
from tests.core.faults.fakes import answered, client_error, fake, made, through
from tests.core.faults.test_walk import ToolError, because, evidence, refused
from tests.transports.side import closed_port


def test_the_last_of_several_tries_proves_nothing():
    request = httpx.Request("POST", "https://models", headers={"x-stainless-retry-count": "1"})
    assert (
        evidence(made("anthropic.APIConnectionError", cause=httpx.ConnectError(""), request=request)) is Evidence.MAYBE
    )
    assert evidence(client_error("SlowDown", 503, retries=1)) is Evidence.MAYBE
    assert evidence(client_error("SlowDown", 503, retries=0)) is Evidence.NONE
    many = answered("requests.exceptions.HTTPError", 429)
    many.response.raw = type("Raw", (), {"retries": type("Retry", (), {"history": ("first",)})})
    assert evidence(many) is Evidence.MAYBE
    assert evidence(because(ToolError(), many)) is Evidence.MAYBE


def test_the_only_try_proves_what_it_proves():
    one = answered("requests.exceptions.HTTPError", 429)
    one.response.raw = SimpleNamespace(retries=SimpleNamespace(history=()))
    assert evidence(one) is Evidence.NONE
    assert evidence(made("botocore.exceptions.ClientError", response={"Error": {"Code": "SlowDown"}})) is Evidence.NONE
    for tries, proved in ((1, Evidence.NONE), (2, Evidence.MAYBE), (3, Evidence.MAYBE)):
        last = SimpleNamespace(attempt_number=tries)
        assert evidence(made("tenacity.RetryError", cause=refused(), last_attempt=last)) is proved


def after(**fields):
    return SimpleNamespace(**fields)


NEVER, SENT = made("urllib3.exceptions.NewConnectionError"), made("urllib3.exceptions.ProtocolError")
CAME_LATE = {
    "urllib3.connectionpool.urlopen": ("retries", after(history=()), after(history=(after(error=SENT),))),
    "urllib3.poolmanager.urlopen": ("retries", None, after(history=(after(error=None, status=307),))),
    "requests.sessions.resolve_redirects": ("gen", ..., True),
    "httpx._client._send_handling_redirects": ("history", [], [after(status_code=307)]),
    "httpx2._client._send_handling_redirects": ("history", [after(status_code=401)], [after(status_code=302)]),
    "aiohttp.client._request": ("history", [], [after(status=307)]),
    "botocore.endpoint._send_request": ("attempts", 1, 2),
    "aiobotocore.endpoint._send_request": ("attempts", 1, 2),
    "boto3.resources.action.__call__": ("responses", [], [{"Deleted": []}]),
    "docker.models.containers.run": ("container", None, object()),
    "boto3.dynamodb.table._flush": ("items_to_send", ..., []),
    "stripe._http_client._request_with_retries_internal": ("num_retries", 0, 1),
    "stripe._http_client._request_with_retries_internal_async": ("num_retries", 0, 1),
    "tenacity.iter": ("retry_state", after(attempt_number=1), after(attempt_number=2)),
    "tenacity.asyncio.iter": ("retry_state", after(attempt_number=1), after(attempt_number=2)),
    "backoff._sync.retry": ("tries", 1, 2),
    "retrying.call": ("attempt_number", 1, 2),
    "aiohttp_retry.client._do_request": ("current_attempt", 1, 2),
    "httpx_retries.transport._retry_operation": ("response", None, OSError()),
    "httpx_retries.transport._retry_operation_async": ("response", None, OSError()),
    "niquests.sessions.resolve_redirects": ("gen", ..., True),
    "urllib.request.http_error_302": ("req", ..., True),
    "httplib2._request": ("location", None, "/there"),
    "xmlrpc.client.request": ("i", 0, 1),
    "google.api_core.retry.retry_unary.retry_target": ("error_list", [OSError()], [OSError(), OSError()]),
    "elastic_transport._transport.perform_request": ("errors", [], [OSError()]),
    "opensearchpy.transport.perform_request": ("attempt", 0, 1),
    "elasticsearch.helpers.actions.bulk": ("success", 0, 500),
    "opensearchpy.helpers.actions.async_bulk": ("success", 0, 500),
    "elasticsearch.helpers.actions.streaming_bulk": ("attempt", 0, 1),
    "elasticsearch.helpers.async_streaming_bulk": ("attempt", 0, 1),
    "googleapiclient.http._retry_request": ("retry_num", 0, 1),
    "googleapiclient.http.execute": ("num_retries", 0, 3),
    "googleapiclient.http.next_chunk": ("num_retries", 0, 3),
    "slack_sdk.web.base_client._perform_urllib_http_request": ("counter_for_safety", 1, 2),
    "slack_sdk.webhook.client._perform_http_request": ("counter_for_safety", 1, 2),
    "slack_sdk.web.async_internal_utils._request_with_session": ("counter_for_safety", 1, 2),
    "kombu.connection._ensured": ("retries", 0, 1),
    "anyio.to_process.send_raw_command": ("process", ..., None),
    "celery.result.maybe_throw": ("propagate", ..., True),
    "arq.jobs.result": ("info", ..., None),
    "taskiq.result.result.raise_for_error": ("self", ..., None),
    "distributed.client._gather": ("errors", ..., "raise"),
    "distributed.client._result": ("raiseit", ..., True),
    "modal._utils.function_utils._process_result": ("result", ..., None),
    "parsl.app.errors.reraise": ("t", ..., None),
    "jira.resilientsession.request": ("self", after(max_retries=0), after(max_retries=3)),
    "gitlab.client.http_request": ("retry", after(cur_retries=0), after(cur_retries=1)),
    "notion_client.client._execute_with_retry": ("attempt", 0, 1),
    "dropbox.dropbox_client.request_json_string_with_retry": ("attempt", 0, 1),
    "discord.http.request": ("tries", 0, 1),
    "huggingface_hub.utils._http._http_backoff_base": ("nb_tries", 1, 2),
    "weaviate.retry.with_exponential_backoff": ("count", 0, 1),
    "llama_index.core.utils.retry_on_exceptions_with_backoff": ("tries", 1, 2),
}


@pytest.mark.parametrize("path", CAME_LATE)
def test_the_last_of_several_requests_is_known_by_its_way(path):
    name, first, late = CAME_LATE[path]
    assert evidence(through(path, refused(), **{name: late})) is Evidence.MAYBE
    assert evidence(because(httpx.ConnectError(""), through(path, refused(), **{name: late}))) is Evidence.MAYBE
    assert evidence(through(f"shop.{path}", refused(), **{name: late})) is Evidence.NONE
    if first is not ...:
        assert evidence(through(path, refused(), **{name: first})) is Evidence.NONE
        assert evidence(through(path, refused())) is Evidence.NONE


def test_sdks_of_one_maker_repeat_alike_whatever_their_names():
    for path in ("mistralai.client.utils.retries.retry_with_backoff", "any_one.utils.retry_with_backoff_async"):
        assert evidence(through(path, refused(), retries=0)) is Evidence.NONE
        assert evidence(through(path, refused(), retries=1)) is Evidence.MAYBE
    for path in ("cohere.core.http_client.request", "another.core.http_client.request"):
        assert evidence(through(path, refused(), request_options=None, retries=0)) is Evidence.NONE
        assert evidence(through(path, refused(), request_options=None, retries=1)) is Evidence.MAYBE
        assert evidence(through(path, refused(), retries=3)) is Evidence.NONE, "as many call what they may do at most"
    for count, proved in (("0", Evidence.NONE), ("2", Evidence.MAYBE)):
        request = httpx.Request("POST", "https://models", headers={"x-stainless-retry-count": count})
        error = because(made("groq.APIConnectionError"), httpx.ConnectError("", request=request))
        assert evidence(error) is proved


@pytest.mark.parametrize("name", ["handle_request", "handle_async_request"])
def test_a_transport_around_httpxs_that_counts_its_tries(name):
    def by(package, **variables):
        return evidence(through(f"{package}.{name}", httpx.ConnectError(""), **variables))

    for counted in ("attempt", "attempt_number", "retries", "n_retries", "retry_count", "tries"):
        assert by("shop.transport", **{counted: 0}) is Evidence.NONE
        assert by("shop.transport", **{counted: 1}) is Evidence.MAYBE
    assert by("shop.transport", max_retries=3, total_retries=3, request=object()) is Evidence.NONE
    assert by("httpx._transports.default", retries=1) is Evidence.NONE
    assert by("httpcore._sync.connection", retries_left=1) is Evidence.NONE


@pytest.mark.parametrize(("tries", "left", "proved"), [(1, 0, True), (3, 3, True), (3, 0, False), (-1, -2, False)])
def test_tries_that_are_counted_down(tries, left, proved):
    error = through("retry.api.__retry_internal", refused(), tries=tries, _tries=left)
    assert (evidence(error) is Evidence.NONE) is proved


def test_a_transport_of_httpx_that_repeats_says_so_in_its_answers():
    refusal = answered("httpx.HTTPStatusError", 422)
    for made_before, proved in ((0, Evidence.NONE), (1, Evidence.MAYBE)):
        refusal.response.extensions = {"retry": after(attempts_made=made_before)}
        assert evidence(refusal) is proved


def test_tries_that_never_connected_are_no_earlier_requests():
    untrusted = made("urllib3.exceptions.SSLError", ssl.SSLCertVerificationError(1, "certificate verify failed"))
    history = after(history=(after(error=NEVER), after(error=untrusted)))
    assert evidence(through("urllib3.connectionpool.urlopen", refused(), retries=history)) is Evidence.NONE


@pytest.mark.parametrize(("earlier", "proved"), [(NEVER, Evidence.NONE), (SENT, Evidence.MAYBE)])
def test_a_cluster_of_which_no_node_could_be_reached(earlier, proved):
    tried = [made("elastic_transport.ConnectionError", cause=earlier)]
    error = through("elastic_transport._transport.perform_request", refused(), errors=tried)
    assert evidence(error) is proved


def test_what_aiohttp_sends_anew_over_a_fresh_connection():
    def by(method, *, left):
        return through("aiohttp.client._request", refused(), method=method, retry_persistent_connection=left)

    assert evidence(by("PUT", left=False)) is Evidence.MAYBE
    assert evidence(by("PUT", left=True)) is Evidence.NONE
    assert evidence(by("POST", left=False)) is Evidence.NONE


def test_a_refusal_behind_a_redirect_says_nothing_of_who_sent_it():
    refusal = answered("httpx.HTTPStatusError", 404)
    assert evidence(refusal) is Evidence.NONE
    refusal.response.history = [after(status_code=401)]
    assert evidence(refusal) is Evidence.NONE
    refusal.response.history = [after(status_code=307)]
    assert evidence(refusal) is Evidence.MAYBE
    refusal = answered("openai.UnprocessableEntityError", 422, bases=(fake("openai.APIStatusError"),))
    assert evidence(refusal) is Evidence.NONE
    refusal.response.history = [after(status_code=307)]
    assert evidence(refusal) is Evidence.MAYBE
    assert evidence(made("aiohttp.ClientResponseError", status=404, history=(after(status=308),))) is Evidence.MAYBE


def test_a_count_of_tries_on_a_class_that_does_not_repeat_says_nothing():
    assert evidence(made("httpcore.ConnectError", last_attempt=SimpleNamespace(attempt_number=2))) is Evidence.NONE


@pytest.mark.parametrize(
    ("path", "error", "proved"),
    [
        ("shutil.rmtree", PermissionError(13, ""), False),
        ("shutil.unpack_archive", IsADirectoryError(21, ""), False),
        ("tarfile.extractall", PermissionError(13, ""), False),
        ("shutil.copymode", PermissionError(1, ""), False),
        ("shutil.copystat", PermissionError(1, ""), False),
        ("shutil.copyfile", PermissionError(13, ""), True),
        ("shutil._make_tarball", PermissionError(13, ""), False),
        ("shutil._make_zipfile", PermissionError(13, ""), False),
        ("tempfile.__exit__", FileNotFoundError(2, ""), False),
        ("tempfile.close", FileNotFoundError(2, ""), False),
        ("shutil.rmtree", FileNotFoundError(2, ""), True),
        ("shop.rmtree", PermissionError(13, ""), True),
    ],
)
def test_work_on_many_files_that_broke_off_may_have_done_some(path, error, proved):
    assert (evidence(through(path, error)) is Evidence.NONE) is proved


def test_a_file_that_was_taken_away_from_its_temporary_place_is_there(tmp_path):
    """Python 3.12 and later say nothing of it."""
    raised = []
    try:
        with tempfile.NamedTemporaryFile(dir=tmp_path) as file:
            Path(file.name).rename(tmp_path / "there")
    except FileNotFoundError as error:
        raised.append(evidence(error))
    assert (tmp_path / "there").exists()
    assert raised == ([Evidence.MAYBE] if sys.version_info < (3, 12) else [])


def test_a_copy_whose_mode_cannot_be_set_is_there(tmp_path, monkeypatch):
    def chmod(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    (tmp_path / "here").write_text("words")
    monkeypatch.setattr("os.chmod", chmod)
    with pytest.raises(PermissionError) as caught:
        shutil.copy(tmp_path / "here", tmp_path / "there")
    assert (tmp_path / "there").read_text() == "words"
    assert evidence(caught.value) is Evidence.MAYBE


def test_already_exists_after_a_hidden_repeat_may_be_our_own_success():
    fault = classify(client_error("BucketAlreadyOwnedByYou", 409, retries=2))
    assert (fault.own_success, fault.evidence) == (True, Evidence.MAYBE)


def test_redis_reconnects_while_it_sends():
    def send_packed_command():
        raise made("redis.exceptions.ConnectionError", "Error 111 connecting to localhost:6379. Connection refused.")

    def connect():
        raise made("redis.exceptions.ConnectionError", "Error 111 connecting to localhost:6379. Connection refused.")

    for phase, proved in ((connect, Evidence.NONE), (send_packed_command, Evidence.MAYBE)):
        with pytest.raises(Exception, match="connecting to") as caught:
            phase()
        assert evidence(caught.value) is proved


# --- out of another process ---


def during_another(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=-1)
    except ValueError:
        unreached(port)


def unreached(port):
    socket.create_connection(("127.0.0.1", port))


REMOTE = """
Traceback (most recent call last):
  File "/lib/python3/{path}", line 7, in {name}
    raise ConnectionRefusedError
ConnectionRefusedError
"""


@pytest.mark.parametrize(
    "kind", ["concurrent.futures.process._RemoteTraceback", "multiprocessing.pool.RemoteTraceback"]
)
@pytest.mark.parametrize(
    ("path", "name", "proved"),
    [
        ("shop/tools.py", "pay", True),
        ("shop/tools.py", "_send_request", True),
        ("site-packages/botocore/endpoint.py", "_send_request", False),
        ("site-packages/botocore/endpoint.py", "_send", True),
        ("site-packages/retrying.py", "call", False),
        ("site-packages/requests/sessions.py", "resolve_redirects", False),
        ("site-packages/httpx/_transports/default.py", "handle_request", True),
        ("site-packages/shop/sdk.py", "request", True),
    ],
)
def test_what_a_client_repeated_in_another_process_is_not_seen(kind, path, name, proved):
    told = REMOTE.format(path=path, name=name)
    assert (evidence(because(refused(), made(kind, tb=told))) is Evidence.NONE) is proved
    handled = f"{told}\nDuring handling of the above exception, another exception occurred:\n{told}"
    assert evidence(because(refused(), made(kind, tb=handled))) is Evidence.MAYBE
    assert evidence(because(refused(), made(kind))) is Evidence.MAYBE


@pytest.mark.parametrize("mark", ["_remote_tb", "_pyroTraceback"])
def test_what_the_other_side_of_a_remote_call_raised_left_its_past_there(mark):
    error = refused()
    setattr(error, mark, None)
    assert evidence(error) is Evidence.MAYBE
    assert evidence(because(httpx.ConnectError(""), error)) is Evidence.MAYBE


def test_an_error_of_ray_that_is_of_its_causes_class_too_left_its_past_there():
    kind = fake("ray.exceptions.RayTaskError(ConnectError)", fake("ray.exceptions.RayTaskError"), httpx.ConnectError)
    assert evidence(httpx.ConnectError("")) is Evidence.NONE
    assert evidence(kind("")) is Evidence.MAYBE


def test_so_it_is_with_a_process_of_anyio():
    with pytest.raises(ConnectionRefusedError) as caught:
        anyio.run(anyio.to_process.run_sync, during_another, closed_port())
    assert evidence(caught.value) is Evidence.MAYBE


@pytest.mark.parametrize("tool", [unreached, during_another])
def test_an_error_out_of_a_real_process_leaves_its_past_there(tool):
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        error = pool.submit(tool, closed_port()).exception(60)
    assert isinstance(error, ConnectionRefusedError)
    assert (evidence(error) is Evidence.NONE) is (tool is unreached)
