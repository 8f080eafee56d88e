"""From the text fields of a send request to values, without a header object in between.

Means the same as `SendMessageV2` read by the generic mapper; a test compares the two.
"""

from collections.abc import Mapping
from typing import TypeAlias

from emberq.errors import ProtocolError
from emberq.protocol.header_fields import Int32, Int64, parse_integer

# Topic, queue id, system flag, born time, flag, properties text, reconsume times, is a batch.
SendValues: TypeAlias = tuple[str, int, int, int, int, str, int, bool]

# What nearly every number of a send is; looking it up is faster than reading it.
_SMALL_NUMBERS = {str(number): number for number in range(-1, 1024)}
_small_number = _SMALL_NUMBERS.get

# The long form's names (code 10) in the words of the short one.
_SHORT_NAMES = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "bname": "n",
}


# Numbers that may be absent.
_OPTIONAL_NUMBERS = "djl"


def shortened(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields of a long request under their short names; a number that may be absent and does
    not parse counts as absent there, and is an error here."""
    short = {_SHORT_NAMES[name]: value for name, value in fields.items() if name in _SHORT_NAMES}
    for name in _OPTIONAL_NUMBERS:
        text = short.get(name, "0")
        if text not in _SMALL_NUMBERS and _optional(name, text) is None:
            del short[name]
    return short


def read_send(fields: Mapping[str, str]) -> SendValues:
    """What storing a message to a known topic needs.

    Raises:
        ProtocolError: a field is missing, or no number.
    """
    try:
        queue_id = _small_number(text := fields["e"])
        if queue_id is None:
            queue_id = _number("e", text, Int32)
        system_flag = _small_number(text := fields["f"])
        if system_flag is None:
            system_flag = _number("f", text, Int32)
        flag = _small_number(text := fields["h"])
        if flag is None:
            flag = _number("h", text, Int32)
        born_at_ms = (
            int(text)
            if (text := fields["g"]).isdigit() and text.isascii() and len(text) < 19
            else _number("g", text, Int64)
        )
        reconsume_times = _small_number(text := fields.get("j", "0"))
        if reconsume_times is None:
            reconsume_times = _number("j", text, Int32)
        # Not needed here, but wrong is wrong.
        if (text := fields.get("d", "0")) not in _SMALL_NUMBERS:
            _number("d", text, Int32)
        if (text := fields.get("l", "0")) not in _SMALL_NUMBERS:
            _number("l", text, Int32)
        is_batch = fields.get("m", "false")
        return (
            fields["b"],
            queue_id,
            system_flag,
            born_at_ms,
            flag,
            fields.get("i", ""),
            reconsume_times,
            is_batch != "false" and is_batch.lower() == "true",
        )
    except KeyError as error:
        raise ProtocolError(f"the send request lacks the field {error}") from None


def optional_number(fields: Mapping[str, str], name: str) -> int | None:
    """A 32-bit number of fields that `read_send` has taken."""
    text = fields.get(name)
    return None if text is None else _number(name, text, Int32)


def is_true(fields: Mapping[str, str], name: str) -> bool:
    return fields.get(name, "false").lower() == "true"


def _optional(name: str, text: str) -> int | None:
    try:
        return _number(name, text, Int32)
    except ProtocolError:
        return None


def _number(name: str, text: str, kind: type[int]) -> int:
    try:
        return parse_integer(text, kind)
    except ValueError:
        raise ProtocolError(f"the field {name} of the send request is no number in range") from None
