"""Exceptions of libraries that need not be installed, told by module and name as the real ones are."""

from types import SimpleNamespace


def fake(path, *bases):
    """Return an exception class that calls itself by that dotted path."""
    module, _, name = path.rpartition(".")
    return type(name, bases or (Exception,), {"__module__": module, "__qualname__": name})


def made(path, *args, bases=(), cause=None, **attributes):
    """Return an exception of such a class."""
    error = fake(path, *bases)(*args)
    if cause is not None:  # setting it, even to None, hides the context
        error.__cause__ = cause
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def raised_during(error, earlier):
    """Return the error as it is when it was raised while another one was handled."""
    error.__context__ = earlier
    return error


def through(path, error, **variables):
    """Return the error as it is when it came through the function of that dotted path, with these variables."""
    module, _, name = path.rpartition(".")
    made = {"__name__": module}
    exec(f"def {name}(error, {', '.join(variables)}):\n    raise error", made)
    try:
        made[name](error, **variables)
    except BaseException as raised:  # noqa: BLE001 - it was given
        return raised


def rpc_error(name, details="", *, debug="", metadata=(), path="grpc._channel._InactiveRpcError"):
    """Return an error as grpc raises it."""
    kind = fake(path, fake("grpc.RpcError"))
    kind.code = lambda self: SimpleNamespace(name=name)
    kind.details = lambda self: details
    kind.debug_error_string = lambda self: debug
    kind.trailing_metadata = lambda self: metadata
    return kind(name)


def client_error(code, status, *, retries=0, headers=None):
    """Return botocore's ClientError."""
    meta = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}, "RetryAttempts": retries}
    response = {"Error": {"Code": code, "Message": "said the service"}, "ResponseMetadata": meta}
    return made("botocore.exceptions.ClientError", code, response=response)


def answered(path, status, *, headers=None, body=b"", method="POST", sent=None, bases=()):
    """Return an error of an HTTP client that carries a loaded answer."""
    request = SimpleNamespace(method=method, headers=sent or {})
    response = SimpleNamespace(status_code=status, headers=headers or {}, _content=body, request=request)
    return made(path, f"{status}", response=response, request=request, bases=bases)
