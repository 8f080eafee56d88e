"""The second kind of namespace: names stay as they are, and every request says whose they are."""

from emberq.protocol.command import Command


class InNamespace:
    """A hook of the connections."""

    def __init__(self, namespace: str) -> None:
        self._fields = {"nsd": "true", "ns": namespace}

    def before(self, peer: str, request: Command) -> None:
        request.fields = {**(request.fields or {}), **self._fields}

    def after(self, peer: str, request: Command, response: Command | None) -> None:
        return None
