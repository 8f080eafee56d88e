"""Who the client is to servers with access control."""

from msgspec import Struct

from emberq.protocol.command import Command
from emberq.protocol.signature import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    UNIQUE_KEY_QUERY,
    content_to_sign,
    sign,
)


class Credentials(Struct, frozen=True):
    """An access key and its secret; a token where a cloud gives one."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        """Without secrets: objects end up in logs."""
        return f"Credentials(access_key={self.access_key!r})"


class Signing:
    """Signs every request; a hook of the connections."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def before(self, peer: str, request: Command) -> None:
        fields = dict(request.fields or {})
        fields[ACCESS_KEY] = self._credentials.access_key
        if self._credentials.security_token:
            fields[SECURITY_TOKEN] = self._credentials.security_token
        fields.pop(SIGNATURE, None)
        # Older servers leave this mark out of what they compare; the request's version makes
        # newer ones do so too.
        content = content_to_sign(fields, request.body, without=(UNIQUE_KEY_QUERY,))
        fields[SIGNATURE] = sign(content, self._credentials.secret_key)
        request.fields = fields

    def after(self, peer: str, request: Command, response: Command | None) -> None:
        return None
