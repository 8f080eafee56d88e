"""Plays one step of a conversation and says what was seen, in the words of the recordings."""

import time
from collections.abc import Callable
from typing import Any

from tests.golden.broker.conversation import (
    ONEWAY_FLAG,
    Conversation,
    is_server_request,
    request_from_json,
)
from tests.golden.broker.shapes import log_position, shaped
from tests.golden.nameserver.conversation import Answer, Request

Seen = dict[str, Any]

ANSWER_TIMEOUT_S = 20.0
EVENTUALLY_TIMEOUT_S = 45.0
# Where our answer differs on purpose, the recorded one never comes: as long as ours may take.
EXPLAINED_TIMEOUT_S = 3.0
QUIET_S = 0.3
CLOSED_WITHIN_S = 1.0
POLL_S = 0.02


class NeverCameTrue(Exception):
    """An answer that was waited for did not come; the text has the last one."""


def play(
    step: Seen,
    talk: Conversation,
    until: Callable[[Seen], bool] | None,
    timeout_s: float = EVENTUALLY_TIMEOUT_S,
) -> Seen:
    """What is to be recorded beside the step: {} or {"answer": …} and the like."""
    name = step.get("connection", "a")
    match step["kind"]:
        case "close":
            talk.close(name)
        case "mark":
            talk.mark(step["call"])
        case "start":
            request = talk.filled_in(request_from_json(step["request"]))
            talk.calls[step["call"]] = name, talk.connection(name).send(request)
        case "closed":
            within_s = ANSWER_TIMEOUT_S if step.get("is_closed") else CLOSED_WITHIN_S
            return {"is_closed": talk.connection(name).is_closed_by_server(within_s)}
        case "await" | "quiet":
            return _play_await(step, talk)
        case "heard" | "reply":
            return _play_heard(step, talk)
        case _:
            return _play_request(step, talk, until, timeout_s)
    return {}


def _play_await(step: Seen, talk: Conversation) -> Seen:
    name, opaque = talk.calls[step["call"]]
    is_quiet = step["kind"] == "quiet"
    answer = _answer(talk, name, opaque, QUIET_S if is_quiet else ANSWER_TIMEOUT_S)
    return {"answer": _shape_and_keep(step, answer, talk)}


def _play_heard(step: Seen, talk: Conversation) -> Seen:
    name = step.get("connection", "a")
    connection = talk.connection(name)
    if step["kind"] == "reply":
        answer = talk.filled_in(request_from_json(step["request"]))
        connection.reply(talk.heard[name], answer)
        return {}
    is_expected = step.get("frame", True) is not None
    deadline = time.monotonic() + (ANSWER_TIMEOUT_S if is_expected else QUIET_S)
    while True:
        frame = connection.unasked(max(0.0, deadline - time.monotonic()))
        if frame is None:
            return {"frame": None}
        if is_server_request(frame):
            talk.heard[name] = frame.header["opaque"]
            return {"frame": shaped(frame, talk)}


def _play_request(
    step: Seen, talk: Conversation, until: Callable[[Seen], bool] | None, timeout_s: float
) -> Seen:
    name = step.get("connection", "a")
    is_oneway = bool(step["request"].get("flag", 0) & ONEWAY_FLAG)
    deadline = time.monotonic() + timeout_s
    while True:
        request = talk.filled_in(request_from_json(step["request"]))
        answer = _call(talk, name, request, QUIET_S if is_oneway else ANSWER_TIMEOUT_S)
        shape = _shape_and_keep(step, answer, talk)
        if until is None or (shape is not None and until(shape)):
            return {"answer": shape}
        if time.monotonic() > deadline:
            raise NeverCameTrue(f"{step['name']}: {str(shape)[:300]}")
        time.sleep(POLL_S)  # brokers do not announce when a message can be read


def _call(talk: Conversation, name: str, request: Request, timeout_s: float) -> Answer | None:
    try:
        return talk.connection(name).call(request, timeout_s)
    except ConnectionError:
        return None


def _answer(talk: Conversation, name: str, opaque: int, timeout_s: float) -> Answer | None:
    connection = talk.connection(name)
    for frame in connection.strays():
        if frame.header["opaque"] == opaque and not is_server_request(frame):
            return frame
    try:
        return connection.answer_to(opaque, timeout_s)
    except ConnectionError:
        return None


def _shape_and_keep(step: Seen, answer: Answer | None, talk: Conversation) -> Seen | None:
    if answer is None:
        return None
    if "keep" in step and (position := log_position(answer)):
        talk.kept[step["keep"]] = position
    handle = answer.header.get("extFields", {}).get("recallHandle")
    if "keep" in step and handle:
        talk.handles[step["keep"]] = handle
    return shaped(answer, talk)
