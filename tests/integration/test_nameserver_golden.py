"""EmberQ answers recorded requests as the official name server 5.5.0 answered them.

Each scenario of tests/golden/nameserver/5.5.0.json is played to a freshly started
`emberq namesrv`. What may differ:

- tables that are hash sets in the official program come in any order, and the address that
  goes with the system topics is that of any broker;
- EmberQ names PYTHON as its language;
- EmberQ answers a request with a binary header in the binary form (5.5.0 always in JSON, 4.9.7
  as we do), which cannot express an empty field table;
- a remark that is a Java exception with its stack frame: the code counts, not the text;
- the steps that `EXCEPTIONS` lists, each with its reason.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.golden.nameserver.conversation import (
    BINARY_HEADER,
    EVENTUALLY_TIMEOUT_S,
    Answer,
    Conversation,
    RawConnection,
    Request,
    body_from_json,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "nameserver" / "5.5.0.json").read_text()
)
SCENARIOS = {scenario["name"]: scenario for scenario in GOLDEN["scenarios"]}

PROBE = Request(106)
POLL_S = 0.02
QUICK_LOOK_S = 0.1

JAVA_EXCEPTION = re.compile(r"^(java|org\.apache|com\.alibaba)\.[\w.]+(Exception|Error)\b")
UNQUOTED_KEY = re.compile(r"([{,])(-?\d+|null):")

STRICTER = "a registration without what identifies a broker is refused, not half stored"
NO_GHOSTS = "a refused registration leaves nothing behind; officially an empty broker stays"
ALL_LEAVE = "a closed connection takes every broker that registered on it, not just one of them"
CHECKED = "a value that cannot be read is refused with a reason; officially it is silently ignored"
ROUND_TRIP = "the file is escaped so that reading it gives the value back; officially it does not"

# Scenario → step → why EmberQ differs on purpose. A step named here must differ.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "empty server": {"unregister without fields": STRICTER},
    "protocol edges": {
        "connection after a header that is no object": "damaged headers end the connection, all"
        " alike (as in 4.9.7)",
    },
    "registration without a broker name": {
        "register": STRICTER,
        "cluster afterwards": NO_GHOSTS,
        "system topics afterwards": NO_GHOSTS,
    },
    "registration without an address": {
        "register": STRICTER,
        "cluster afterwards": NO_GHOSTS,
        "all topics afterwards": NO_GHOSTS,
        "system topics afterwards": NO_GHOSTS,
    },
    "registration without a cluster": {"register": STRICTER},
    "registration without an HA address": {
        "register": STRICTER,
        "cluster afterwards": STRICTER,
        "all topics afterwards": STRICTER,
        "system topics afterwards": STRICTER,
    },
    "registration with one topic": {
        "cluster afterwards": NO_GHOSTS,
        "system topics afterwards": NO_GHOSTS,
    },
    "registration with a null wrapper": {
        "cluster afterwards": "a broker without topics is registered (as in 4.9.7)",
        "system topics afterwards": "a broker without topics is registered (as in 4.9.7)",
    },
    "registration with a topic that lacks its name": {
        "all topics afterwards": "the name is the key of the table",
    },
    "two brokers on one connection": {
        "after one close": ALL_LEAVE,
        "after another close": ALL_LEAVE,
    },
    "one address, other names": {"after close": ALL_LEAVE},
    "odd configuration updates": {
        "file after: an unknown key": "nothing changed, so nothing is written",
        "update: an unparsable number": CHECKED,
        "file after: an unparsable number": CHECKED,
        "configuration after: an unparsable number": CHECKED,
        "file after: a number with blanks": "blanks around a number do not matter",
        "configuration after: a number with blanks": "blanks around a number do not matter",
        "update: an unparsable boolean": CHECKED,
        "update: a boolean as a number": CHECKED,
        "update: a bad escape": "the remark says which escape",
        "file after: blanks, a colon, escapes": ROUND_TRIP,
        "file after: non-ASCII": ROUND_TRIP,
    },
}


class DidNotStart(Exception):
    """The name server ended before it was ready."""


@contextmanager
def name_server(scenario: dict[str, Any], home: Path) -> Iterator[Conversation]:
    settings = {"listenPort": "0", "kvConfigPath": f"{home}/kvConfig.json"}
    settings |= {"configStorePath": f"{home}/namesrv.properties"}
    settings |= {"scanNotActiveBrokerInterval": "5000"} | scenario["config"]  # ours: as in 4.9
    file = home / "namesrv.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    for name, text in scenario.get("files", {}).items():
        (home / name).write_text(text)
    command = [sys.executable, "-m", "emberq", "namesrv", "-c", str(file)]
    environment = os.environ | {"HOME": str(home), "ROCKETMQ_HOME": str(home)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            raise DidNotStart
        talk = Conversation(int(ready.rsplit(":", 1)[1]), home)
        try:
            assert ready.replace(str(talk.port), "{port}") == GOLDEN["boot_line"]
            yield talk
        finally:
            talk.close_all()
            process.kill()


def difference(step: dict[str, Any], talk: Conversation, patience_s: float) -> str | None:
    """What differs when this step is played, or None."""
    match step["kind"]:
        case "close":
            talk.close(step["connection"])
            return None
        case "closed":
            return closing_difference(step, talk.connection(step["connection"]), patience_s)
        case "file":
            return file_difference(step, talk)
        case "heard":
            return heard_difference(step, talk)
        case _:
            return exchange_difference(step, talk, patience_s)


def closing_difference(
    step: dict[str, Any], connection: RawConnection, patience_s: float
) -> str | None:
    if step["is_closed"]:
        was_closed = connection.is_closed_by_server(patience_s)
        return None if was_closed else "the connection stays open"
    try:
        return None if connection.call(PROBE) else "the connection does not answer"
    except ConnectionError:
        return "the connection was closed"


def file_difference(step: dict[str, Any], talk: Conversation) -> str | None:
    path = talk.home / step["path"]
    found = normalised(path.read_text("latin-1"), talk) if path.exists() else None
    expected = step["content"]
    if found == expected:
        return None
    if found and expected and step["path"].endswith(".json"):
        return body_difference(found.encode("latin-1"), expected.encode("latin-1"))
    if (found is None) != (expected is None):
        return f"file {found!r} instead of {expected!r}"
    return body_difference((found or "").encode(), (expected or "").encode())


def heard_difference(step: dict[str, Any], talk: Conversation) -> str | None:
    if step["frame"] is None:  # `play` looks for stray frames at the end
        return None
    frame = talk.listener(step["connection"]).heard(EVENTUALLY_TIMEOUT_S)
    return answer_difference(frame, step["frame"], talk)


def exchange_difference(step: dict[str, Any], talk: Conversation, patience_s: float) -> str | None:
    connection = talk.connection(step["connection"])
    request = talk.addressed(Request.from_json(step["request"]))
    if step["answer"] is None:
        return silence_difference(connection, request)
    deadline = time.monotonic() + (patience_s if step["kind"] == "eventually" else 0)
    while True:
        try:
            found = answer_difference(connection.call(request), step["answer"], talk)
        except ConnectionError:
            return "the connection was closed"
        if found is None or time.monotonic() >= deadline:
            return found
        time.sleep(POLL_S)  # the server does not announce when it has forgotten a broker


def silence_difference(connection: RawConnection, request: Request) -> str | None:
    """Nothing may come back before the answer to a request sent afterwards."""
    try:
        opaque = connection.send(request)
        if not connection.call(PROBE):
            return "a request after it is not answered"
        stray = [frame for frame in connection.strays() if frame.header.get("opaque") == opaque]
    except ConnectionError:  # a `closed` step says whether this was right
        return None
    return f"answered with {stray[0].header_text}" if stray else None


def answer_difference(
    found: Answer | None, expected: dict[str, Any], talk: Conversation
) -> str | None:
    if found is None:
        return "no answer"
    header = json.loads(normalised(found.header_text, talk))
    assert header["language"] == "PYTHON"
    is_binary = found.header_type == BINARY_HEADER
    compared = comparable(header, is_binary), comparable(expected["header"], is_binary)
    if not is_same_header(*compared):
        return f"header {compared[0]} instead of {compared[1]}"
    if not is_binary and list(header) != list(expected["header"]):
        return f"keys in the order {list(header)} instead of {list(expected['header'])}"
    try:
        body = normalised(found.body.decode(), talk).encode()
    except UnicodeDecodeError:
        body = found.body
    return body_difference(body, body_from_json(expected))


def comparable(header: dict[str, Any], is_binary: bool) -> dict[str, Any]:
    left_out = {"opaque", "language"}
    if is_binary:
        left_out |= {"serializeTypeCurrentRPC"}
        left_out |= {key for key, value in header.items() if value == {}}
    return {key: value for key, value in header.items() if key not in left_out}


def is_same_header(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    if JAVA_EXCEPTION.match(expected.get("remark", "")):
        return "remark" in found and found | {"remark": ""} == expected | {"remark": ""}
    return found == expected


def body_difference(found: bytes, expected: bytes) -> str | None:
    if found == expected:
        return None
    # Equal length: same quoting, same (missing) blanks, whatever the order.
    if (
        len(found) == len(expected)
        and found[:1] == b"{"
        and unordered(found) == unordered(expected)
    ):
        return None
    return f"body {only_new(found, expected)} instead of {only_new(expected, found)}"


def only_new(text: bytes, other: bytes) -> list[str]:
    """The lines of `text` that `other` does not have: a difference in 40 keys stays readable."""
    known = other.decode(errors="replace").splitlines()
    return [line for line in text.decode(errors="replace").splitlines() if line not in known]


def unordered(body: bytes) -> Any:
    value = sort_lists(json.loads(UNQUOTED_KEY.sub(r'\1"\2":', body.decode())))
    if "topicList" in value and "brokerAddr" in value:
        value["brokerAddr"] = "of some broker"
    return value


def sort_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: sort_lists(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return sorted((sort_lists(entry) for entry in value), key=json.dumps)
    return value


def normalised(text: str, talk: Conversation) -> str:
    return talk.normalise(text).replace("listenPort=0\n", "listenPort={port}\n")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_recorded_answers_are_ours(name: str, tmp_path: Path) -> None:
    exceptions = EXCEPTIONS.get(name, {})

    try:
        differences = play(SCENARIOS[name], tmp_path, exceptions)
    except DidNotStart:
        differences = {"start": "the name server ended"}

    unexpected = [f"{step}: {text}" for step, text in differences.items() if step not in exceptions]
    assert not unexpected, "\n".join(unexpected)
    assert set(differences) == set(exceptions), "no exception any more: remove it from the list"


def play(scenario: dict[str, Any], home: Path, exceptions: dict[str, str]) -> dict[str, str]:
    """Step → what differed."""
    differences = {}
    with name_server(scenario, home) as talk:
        for step in scenario["steps"]:
            # What is known to differ is not waited for.
            patience_s = QUICK_LOOK_S if step["name"] in exceptions else EVENTUALLY_TIMEOUT_S
            if found := difference(step, talk, patience_s):
                differences[step["name"]] = found
        strays = [who for who, ear in talk.listeners.items() if ear.heard(QUICK_LOOK_S)]
    assert not strays
    return differences
