"""How a request proves who sent it: an HMAC over its field values and its body.

Neither field names nor code, opaque and remark are signed, and there is no time stamp.
"""

import hmac
from binascii import b2a_base64
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"

# Each of these is left out of the signed content by some official clients and signed by others:
# zones are added after signing by Java 5.x, the mark of a key query is unknown to Java before
# 4.9.4, and the Go client does not sign its token.
_MAYBE_UNSIGNED: Final = (("__ZONE_NAME", "__ZONE_MODE"), (UNIQUE_KEY_QUERY,), (SECURITY_TOKEN,))


def content_to_sign(
    fields: Mapping[str, str], body: bytes = b"", without: Collection[str] = ()
) -> bytes:
    """The values in the order of their names, then the body; the signature itself is left out."""
    names = sorted((n for n in fields if n != SIGNATURE and n not in without), key=_java_order)
    values = "".join([fields[name] for name in names])
    return values.encode("utf-8", "replace") + body


def sign(content: bytes, secret_key: str) -> str:
    """Base64 of HMAC-SHA1, the text of the field `Signature`."""
    digest = hmac.digest(secret_key.encode("utf-8", "replace"), content, "sha1")
    return b2a_base64(digest, newline=False).decode("ascii")


def is_signature_valid(fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    """Whether the request was signed with this key by any of the official clients."""
    given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
    return any(
        hmac.compare_digest(
            sign(content_to_sign(fields, body, without), secret_key).encode(), given
        )
        for without in _unsigned_choices(fields)
    )


def _unsigned_choices(fields: Mapping[str, str]) -> Iterator[list[str]]:
    """Which fields the sender may have left out, the likeliest first."""
    present = [group for group in _MAYBE_UNSIGNED if any(name in fields for name in group)]
    for count in range(len(present) + 1):
        for groups in combinations(present, count):
            yield [name for group in groups for name in group]


def _java_order(name: str) -> bytes:
    """Java compares strings by UTF-16 unit."""
    return name.encode("utf-16-be", "surrogatepass")
