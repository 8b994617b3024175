"""The front door: where tools are declared, calls are made, and the parts are put together."""
