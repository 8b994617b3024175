"""What a call raises, as a value: for tables of what is taken and what is refused."""


def raised(call, *args, **more):
    """Return the name of the error's class, or None if the call returned."""
    try:
        call(*args, **more)
    except Exception as error:  # noqa: BLE001 - which one it is, if any, is what is compared
        return type(error).__name__
    return None
