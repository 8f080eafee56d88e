"""docs/compatibility.md tells the truth about every request code."""

import re
from pathlib import Path

from emberq.broker.config import load
from emberq.broker.server import running_broker
from emberq.nameserver.config import NameServerConfig
from emberq.nameserver.departures import Departures
from emberq.nameserver.kv_store import KeyValueStore
from emberq.nameserver.kv_table import KeyValueTable
from emberq.nameserver.route_table import RouteTable
from emberq.nameserver.server import name_server_handlers
from emberq.nameserver.settings import Settings
from emberq.protocol.codes import SHORT_MAX, EmberqCode, RequestCode
from emberq.testing.local_broker import SMALL_STORE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
ROWS = [
    (int(code), name, who, status, note)
    for code, name, who, status, note in ROW.findall(PAGE.read_text())
]
# Requests that our servers send; nobody asks them of us.
SENT = {
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
}
# Requests that only EmberQ knows.
OWN = set(EmberqCode)


def name_server_codes() -> set[int]:
    table = RouteTable()
    registry = name_server_handlers(
        Settings(NameServerConfig()),
        KeyValueStore(Path("unused"), KeyValueTable()),
        table,
        Departures(table, lambda: 1),
    )
    return set(registry.codes())


async def broker_codes(home: Path) -> set[int]:
    keys = {"bindAddress": "127.0.0.1", "listenPort": "0", "storePathRootDir": str(home)}
    async with running_broker(load(None, {**keys, **SMALL_STORE}, {})) as broker:
        return set(broker.registry.codes())


def test_every_request_code_has_one_row_with_its_official_name() -> None:
    assert sorted((code, name) for code, name, *_ in ROWS) == sorted(
        (int(code), code.name) for code in RequestCode
    )


def test_a_row_says_who_needs_it_and_how_far_it_is() -> None:
    lacking = [
        code
        for code, _, who, status, note in ROWS
        if not who or status not in ("done", "partly", "not") or (status == "partly" and not note)
    ]

    assert lacking == []


async def test_the_status_agrees_with_the_handlers(tmp_path: Path) -> None:
    offered = {code for code, _, _, status, _ in ROWS if status != "not"}

    assert offered | OWN == name_server_codes() | await broker_codes(tmp_path) | SENT


def test_own_requests_are_far_from_official_numbers_and_have_a_format() -> None:
    pages = ("scan.md", "send-once.md")
    formats = "".join((PAGE.parent / "formats" / page).read_text() for page in pages)
    official = {int(code) & 0xFFFF for code in RequestCode} | {int(code) for code in RequestCode}

    assert OWN.isdisjoint(official)
    assert all(code <= SHORT_MAX and f"| {code:d} | {code.name} |" in formats for code in OWN)
