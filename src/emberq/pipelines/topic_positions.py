"""Positions of several topics as options of a source that reads one of them. Pure."""

from collections.abc import Collection, Mapping

import msgspec

# Options in small letters whose value is JSON by topic.
_BY_TOPIC = frozenset(
    f"{end}{kind}" for end in ("starting", "ending") for kind in ("offsets", "offsetsbytimestamp")
)


def options_of_topic(
    options: Mapping[str, str], topic: str, topics: Collection[str]
) -> dict[str, str]:
    """Options for `topic` alone, of those that all the topics share.

    Only what they say of the others is cut out: a name that is none of the topics stays, so that
    the source refuses it as it would with all of them together.
    """
    others = {*topics} - {topic}
    cut = {
        name: _without(text, others) for name, text in options.items() if name.lower() in _BY_TOPIC
    }
    return {**options, **cut, "subscribe": topic}


def _without(text: str, others: Collection[str]) -> str:
    try:
        table = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return text  # a word such as earliest, or a mistake that the source names
    kept = {name: value for name, value in table.items() if name not in others}
    return msgspec.json.encode(kept).decode()
