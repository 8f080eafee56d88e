"""What `capture_nameserver` asks an official name server: one function per scenario."""

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.golden.nameserver.conversation import BINARY_HEADER, Answer, Request, Step

ONEWAY = 2
STAMP_MS = 1_700_000_000_000
CLUSTER, BROKER, ADDRESS, HA_ADDRESS = "C1", "brk-a", "10.1.1.7:10911", "10.1.1.7:10912"
SLAVE_ADDRESS, SLAVE_HA = "10.1.1.8:10911", "10.1.1.8:10912"

Fields = dict[str, str]
Topics = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Scenario:
    """Steps that start on a fresh server with the given configuration."""

    name: str
    steps: Callable[[], Iterator[Step]]
    config: tuple[tuple[str, str], ...] = ()
    lines: tuple[str, ...] = ("4.9.7", "5.5.0")
    files: tuple[tuple[str, str], ...] = ()


def ask(name: str, code: int, body: bytes = b"", /, **fields: str) -> Step:
    return Step("request", name, request=Request(code, fields, body=body))


def on(connection: str, step: Step) -> Step:
    return Step(step.kind, step.name, connection, step.request, step.until, step.path)


def at_version(version: int, step: Step) -> Step:
    assert step.request is not None
    sent = step.request
    request = Request(sent.code, sent.fields, version, sent.flag, sent.body, sent.header_type)
    return Step(step.kind, step.name, step.connection, request, step.until)


def oneway(step: Step) -> Step:
    assert step.request is not None
    sent = step.request
    request = Request(sent.code, sent.fields, sent.version, ONEWAY, sent.body, sent.header_type)
    return Step(step.kind, step.name, step.connection, request)


def binary(step: Step) -> Step:
    assert step.request is not None
    sent = step.request
    request = Request(sent.code, sent.fields, sent.version, sent.flag, sent.body, BINARY_HEADER)
    return Step(step.kind, step.name, step.connection, request)


def odd(name: str, code: int, header_text: str, body: bytes = b"") -> Step:
    return Step("request", name, request=Request(code, body=body, header_text=header_text))


def eventually(step: Step, until: Callable[[Answer], bool]) -> Step:
    return Step("eventually", step.name, step.connection, step.request, until)


def close(connection: str) -> Step:
    return Step("close", f"close connection {connection}", connection)


def closed(connection: str) -> Step:
    return Step("closed", f"the server closes connection {connection}", connection)


def heard(listener: str, name: str) -> Step:
    return Step("heard", name, listener)


def raw(name: str, frame_hex: str) -> Step:
    return Step("request", name, request=Request(0, frame_hex=frame_hex))


def file(path: str, name: str) -> Step:
    return Step("file", name, path=path)


def without(step: Step, name: str, *missing: str) -> Step:
    assert step.request is not None
    fields = {key: value for key, value in step.request.fields.items() if key not in missing}
    request = Request(step.request.code, fields, step.request.version, body=step.request.body)
    return Step(step.kind, name, step.connection, request)


# Registration bodies


def topic(name: str, queues: int = 4, perm: int = 6, flag: int = 0, **more: Any) -> Topics:
    config: dict[str, Any] = {"order": False, "perm": perm, "readQueueNums": queues}
    config |= {"topicFilterType": "SINGLE_TAG", "topicName": name, "topicSysFlag": flag}
    return {name: config | {"writeQueueNums": queues} | more}


def data_version(counter: int = 1, stamp_ms: int = STAMP_MS, state: int | None = None) -> Any:
    version = {"counter": counter, "timestamp": stamp_ms}
    return version if state is None else {"counter": counter, "stateVersion": state} | version


def plain_body(
    topics: Topics,
    version: Any = None,
    filter_servers: list[str] | None = (),  # type: ignore[assignment]  # () stands for "none given"
    **wrapper: Any,
) -> bytes:
    body: dict[str, Any] = {}
    if filter_servers is not None:
        body["filterServerList"] = list(filter_servers)
    body["topicConfigSerializeWrapper"] = {
        "dataVersion": version or data_version(),
        "topicConfigTable": topics,
    } | wrapper
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def compressed_body(topics: Topics, *, is_v5: bool, mappings: list[Any] | None = None) -> bytes:
    def block(text: str) -> bytes:
        return struct.pack(">i", len(text.encode())) + text.encode()

    parts = [block(json.dumps(data_version(3), separators=(",", ":")))]
    parts.append(struct.pack(">i", len(topics)))
    for name, config in topics.items():
        text = f"{name} {config['readQueueNums']} {config['writeQueueNums']} {config['perm']}"
        parts.append(block(text + " SINGLE_TAG" + (" {}" if is_v5 else "")))
    parts.append(block("[]"))
    if mappings is not None:
        parts.append(struct.pack(">i", len(mappings)))
        parts += [block(json.dumps(mapping, separators=(",", ":"))) for mapping in mappings]
    return zlib.compress(b"".join(parts), 9)


def crc_of(body: bytes) -> str:
    return str(zlib.crc32(body) & 0x7FFFFFFF)


TWO_TOPICS = topic("T1") | topic("T2", queues=2)
MAPPING: dict[str, Any] = {
    "bname": BROKER,
    "currIdMap": {"0": 0},
    "dirty": False,
    "epoch": STAMP_MS,
}
MAPPING |= {"scope": "__global__", "topic": "T2", "totalQueues": 8}


def register(name: str, body: bytes = plain_body(TWO_TOPICS), /, **changes: str) -> Step:
    fields = {"brokerName": BROKER, "brokerAddr": ADDRESS, "clusterName": CLUSTER}
    fields |= {"haServerAddr": HA_ADDRESS, "brokerId": "0", "compressed": "false"}
    fields |= {"bodyCrc32": crc_of(body) if body else "0"}
    return ask(name, 103, body, **(fields | changes))


def register_slave(name: str, body: bytes = plain_body(TWO_TOPICS), /, **changes: str) -> Step:
    mine = {"brokerAddr": SLAVE_ADDRESS, "haServerAddr": SLAVE_HA, "brokerId": "1"}
    return register(name, body, **(mine | changes))


def unregister(name: str, **changes: str) -> Step:
    fields = {"brokerName": BROKER, "brokerAddr": ADDRESS, "clusterName": CLUSTER, "brokerId": "0"}
    return ask(name, 104, **(fields | changes))


def query_version(name: str, version: Any, **changes: str) -> Step:
    fields = {"brokerName": BROKER, "brokerAddr": ADDRESS, "clusterName": CLUSTER, "brokerId": "0"}
    body = json.dumps(version, separators=(",", ":")).encode() if version is not None else b""
    return ask(name, 322, body, **(fields | changes))


def route(name: str, of_topic: str = "T1", **more: str) -> Step:
    return ask(name, 105, topic=of_topic, **more)


def cluster(name: str) -> Step:
    return ask(name, 106)


def has_no_route(answer: Answer) -> bool:
    return bool(answer.header["code"] == 17)


def has_no_brokers(answer: Answer) -> bool:
    return ADDRESS.encode() not in answer.body and SLAVE_ADDRESS.encode() not in answer.body


def has_no_master(answer: Answer) -> bool:
    return ADDRESS.encode() not in answer.body


# Scenarios


def empty_server() -> Iterator[Step]:
    yield cluster("cluster of an empty server")
    yield ask("all topics of an empty server", 206)
    yield ask("topics of an unknown cluster", 224, cluster="nowhere")
    yield ask("topics of no cluster", 224)
    yield ask("system topics of an empty server", 304)
    yield ask("unit topics of an empty server", 311)
    yield ask("unit subscription topics of an empty server", 312)
    yield ask("non-unit topics with unit subscription of an empty server", 313)
    yield route("route of an unknown topic", "nowhere")
    yield at_version(317, route("route of an unknown topic for an old client", "nowhere"))
    yield route("route of a topic with other characters", "a/ü€😀")
    yield ask("route without a topic", 105)
    yield ask("route of an empty topic", 105, topic="")
    yield ask("wipe write permission of an unknown broker", 205, brokerName="nobody")
    yield ask("wipe write permission of no broker", 205)
    yield ask("add write permission of an unknown broker", 327, brokerName="nobody")
    yield ask("add write permission of no broker", 327)
    yield unregister("unregister an unknown broker")
    yield ask("unregister without fields", 104)
    yield ask("delete an unknown topic", 216, topic="nowhere")
    yield ask("delete an unknown topic in a cluster", 216, topic="nowhere", clusterName="C9")
    yield ask("delete no topic", 216)
    yield query_version("data version of an unknown broker", data_version())
    yield query_version("data version of an unknown broker, no body", None)
    yield ask("data version without fields", 322)
    yield ask("members of an unknown broker group", 901, clusterName="C9", brokerName="nobody")
    yield ask("members without fields", 901)
    yield ask(
        "heartbeat of an unknown broker", 904, clusterName="C9", brokerName="n", brokerAddr="x"
    )
    yield ask("heartbeat without fields", 904)
    yield ask("register a topic without a body", 217, topic="T9")
    queue = {"brokerName": "nobody", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}
    body = json.dumps({"queueDatas": [queue]}).encode()
    yield ask("register a topic of an unknown broker", 217, body, topic="T9")
    yield route("route of the topic of an unknown broker", "T9")


def protocol_edges() -> Iterator[Step]:
    yield ask("unknown code", 9999)
    yield ask("broker code: send", 10, b"x", topic="T1")
    yield ask("broker code: heartbeat", 34, b"{}")
    yield ask("broker code: pull", 11)
    yield ask("code zero", 0)
    yield oneway(ask("unknown code, oneway", 9999))
    yield oneway(route("route, oneway", "nowhere"))
    yield oneway(ask("put, oneway", 100, namespace="n", key="k", value="oneway"))
    # Nobody says when it is stored.
    put = ask("get what was put oneway", 101, namespace="n", key="k")
    yield eventually(put, lambda answer: answer.header["code"] == 0)
    yield binary(route("route in the binary form", "nowhere"))
    yield binary(ask("get in the binary form", 101, namespace="n", key="k"))
    yield binary(ask("get an absent key in the binary form", 101, namespace="n", key="none"))
    yield binary(ask("cluster in the binary form", 106))
    yield binary(
        ask("put an empty value in the binary form", 100, namespace="n", key="e", value="")
    )
    yield binary(ask("unknown code in the binary form", 9999))
    yield odd(
        "header with unknown keys, other order, blanks, a number as field",
        105,
        '{ "opaque" : {opaque}, "zzz":[1,{"a":null}], "version":513, "code":105,'
        ' "extFields":{"topic":12, "other":true, "none":null}, "flag":0, "language":"JAVA"}',
    )
    yield odd("header without a version", 105, '{"code":105,"opaque":{opaque},"flag":0}')
    yield odd("header without flag and language", 106, '{"code":106,"opaque":{opaque}}')
    yield odd(
        "header with an unknown language", 106, '{"code":106,"opaque":{opaque},"language":"ADA"}'
    )
    yield odd(
        "header with numbers as text",
        106,
        '{"code":"106","opaque":"{opaque}","flag":"0","version":"513"}',
    )
    yield odd(
        "header with null fields",
        106,
        '{"code":106,"opaque":{opaque},"extFields":null,"remark":null}',
    )
    yield odd("request with a remark", 106, '{"code":106,"opaque":{opaque},"remark":"hello"}')
    yield on("b", odd("header that is no object", 106, "[]"))
    yield on("b", Step("closed", "connection after a header that is no object"))
    yield on("c", odd("header that is no JSON", 106, "{garbage"))
    yield on("c", Step("closed", "connection after a header that is no JSON"))
    yield on("d", odd("empty JSON object", 0, "{}"))
    yield on("d", Step("closed", "connection after an empty object"))


def kv_config() -> Iterator[Step]:
    yield ask("get from an absent namespace", 101, namespace="n1", key="k1")
    yield ask("list an absent namespace", 219, namespace="n1")
    yield ask("put", 100, namespace="n1", key="k1", value="v1")
    yield file("kvConfig.json", "KV file after one put")
    yield ask("get", 101, namespace="n1", key="k1")
    yield ask("get an absent key of a namespace", 101, namespace="n1", key="none")
    yield ask("put the same again", 100, namespace="n1", key="k1", value="v1")
    yield ask("put another value", 100, namespace="n1", key="k1", value="v2")
    yield ask("get the other value", 101, namespace="n1", key="k1")
    yield ask("put an empty value", 100, namespace="n1", key="empty", value="")
    yield ask("get an empty value", 101, namespace="n1", key="empty")
    yield ask("put non-ASCII", 100, namespace="ns ü", key="kéy/€", value='v "quoted" \\ / \t 😀')
    yield ask("get non-ASCII", 101, namespace="ns ü", key="kéy/€")
    yield ask("list non-ASCII", 219, namespace="ns ü")
    yield file("kvConfig.json", "KV file with non-ASCII")
    yield ask("put without a value", 100, namespace="n1", key="novalue")
    yield ask("get what was put without a value", 101, namespace="n1", key="novalue")
    yield ask("put without a key", 100, namespace="n1", value="v")
    yield ask("put without a namespace", 100, key="k", value="v")
    yield ask("put without fields", 100)
    yield ask("put with an empty namespace", 100, namespace="", key="k", value="v")
    yield ask("put with an empty key", 100, namespace="n1", key="", value="v")
    yield ask("list with several keys", 219, namespace="n1")
    yield ask("list without a namespace", 219)
    yield ask("get without a key", 101, namespace="n1")
    yield ask("get without a namespace", 101, key="k1")
    yield ask("get without fields", 101)
    yield file("kvConfig.json", "KV file with several namespaces")
    yield ask("delete an absent key", 102, namespace="n1", key="none")
    yield ask("delete from an absent namespace", 102, namespace="n9", key="none")
    yield ask("delete without a key", 102, namespace="n1")
    yield ask("delete without a namespace", 102, key="k1")
    yield ask("delete without fields", 102)
    yield ask("delete", 102, namespace="n1", key="k1")
    yield ask("delete the rest", 102, namespace="n1", key="empty")
    yield ask("delete the empty key", 102, namespace="n1", key="")
    yield ask("delete the key without a value", 102, namespace="n1", key="novalue")
    yield ask("get after delete", 101, namespace="n1", key="k1")
    yield ask("list an emptied namespace", 219, namespace="n1")
    yield file("kvConfig.json", "KV file after deletions")


def first_registration() -> Iterator[Step]:  # noqa: PLR0915  # a list of steps, not logic
    yield register("master, two topics, plain 4.9 body")
    yield route("route")
    yield cluster("cluster with one master")
    yield ask("all topics", 206)
    yield ask("topics of the cluster", 224, cluster=CLUSTER)
    yield ask("system topics", 304)
    yield query_version("same data version", data_version())
    yield query_version("other data version", data_version(2))
    yield query_version("no data version", None)
    yield query_version("data version of another address", data_version(), brokerAddr="10.9.9.9:1")
    yield query_version("data version in another cluster", data_version(), clusterName="C9")
    yield query_version("data version with a state version", data_version(1, state=0))
    yield query_version("data version with another state version", data_version(1, state=5))
    yield ask("members", 901, clusterName=CLUSTER, brokerName=BROKER)
    yield ask("members in another cluster", 901, clusterName="C9", brokerName=BROKER)
    yield ask("heartbeat", 904, clusterName=CLUSTER, brokerName=BROKER, brokerAddr=ADDRESS)
    for version in (317, 353, 399, 400, 401, 407, 413, 513):
        yield at_version(version, route(f"route at version {version}"))
    yield at_version(317, route("standard JSON asked for", acceptStandardJsonOnly="true"))
    yield at_version(317, route("standard JSON refused", acceptStandardJsonOnly="false"))
    yield at_version(513, route("standard JSON refused, new", acceptStandardJsonOnly="false"))
    yield binary(route("route of a known topic in the binary form"))
    yield at_version(317, cluster("cluster for an old client"))
    yield register("second registration, same version, same topics")
    yield register("same version, one more topic", plain_body(TWO_TOPICS | topic("T3")))
    yield route("route of the added topic, same version", "T3")
    changed = topic("T1", queues=8, perm=4) | topic("T2")
    yield register("same version, changed queues", plain_body(changed))
    yield route("route with changed queues, same version")
    yield register("newer version, changed queues", plain_body(changed, data_version(2)))
    yield route("route with changed queues, newer version")
    yield register("newer version, one topic", plain_body(topic("T4"), data_version(3)))
    yield route("route of a single added topic", "T4")
    yield route("route of a topic left out")
    yield register("older version", plain_body(topic("T1"), data_version(1)))
    yield route("route after an older version")
    yield ask("wipe write permission", 205, brokerName=BROKER)
    yield route("route after wipe")
    yield ask("wipe write permission again", 205, brokerName=BROKER)
    yield ask("add write permission", 327, brokerName=BROKER)
    yield route("route after add")
    yield ask("delete a topic", 216, topic="T4")
    yield route("route of a deleted topic", "T4")
    yield register("register again after deletion", plain_body(TWO_TOPICS | topic("T4")))
    yield route("route of a deleted topic registered again", "T4")
    yield ask("delete a topic in another cluster", 216, topic="T2", clusterName="C9")
    yield route("route of a topic deleted in another cluster", "T2")
    yield ask("delete a topic in its cluster", 216, topic="T2", clusterName=CLUSTER)
    yield route("route of a topic deleted in its cluster", "T2")
    yield register("no topics", plain_body({}, data_version(9)))
    yield route("route after a registration without topics")
    yield unregister("unregister with another address", brokerAddr="10.9.9.9:1")
    yield route("route after unregistering another address")
    yield unregister("unregister")
    yield eventually(route("route after unregistering"), has_no_route)
    yield cluster("cluster after unregistering")
    yield ask("all topics after unregistering", 206)
    yield ask("topics of the cluster after unregistering", 224, cluster=CLUSTER)


def bodies() -> Iterator[Step]:  # noqa: PLR0915  # a list of steps, not logic
    """Every way to spell a registration, each by another broker name."""
    number = 0

    def other(step: Step) -> Step:
        nonlocal number
        number += 1
        assert step.request is not None
        mine = {"brokerName": f"brk-{number}", "brokerAddr": f"10.1.2.{number}:10911"}
        sent = step.request
        request = Request(sent.code, sent.fields | mine, sent.version, sent.flag, sent.body)
        return Step("request", f"{number}: {step.name}", request=request)

    def show() -> Step:
        return route(f"route after registration {number}")

    yield other(register("no body", b""))
    yield other(register("garbage body", b"garbage"))
    yield other(register("empty object", b"{}"))
    yield other(register("CRC mismatch", plain_body(TWO_TOPICS), bodyCrc32="1"))
    yield other(register("CRC zero", plain_body(TWO_TOPICS), bodyCrc32="0"))
    yield other(without(register("x"), "CRC absent", "bodyCrc32"))
    yield other(register("CRC unparsable", plain_body(TWO_TOPICS), bodyCrc32="abc"))
    yield cluster("cluster so far")
    yield ask("system topics so far", 304)
    yield other(register("no topics, no version", b'{"topicConfigSerializeWrapper":{}}'))
    yield other(register("filter servers null", plain_body(TWO_TOPICS, filter_servers=None)))
    yield other(
        register("filter servers", plain_body(TWO_TOPICS, filter_servers=["10.1.1.7:30001"]))
    )
    yield show()
    v5 = topic("T1", attributes={"+message.type": "NORMAL"}) | topic("T2", attributes={})
    body = plain_body(
        v5,
        data_version(1, state=0),
        mappingDataVersion=data_version(1, state=0),
        topicQueueMappingDetailMap={},
        topicQueueMappingInfoMap={"T2": MAPPING},
    )
    yield other(register("plain 5.x with mappings", body))
    yield route("route of a mapped topic", "T2")
    yield at_version(317, route("route of a mapped topic in the dialect", "T2"))
    body = compressed_body(TWO_TOPICS, is_v5=False)
    yield at_version(407, other(register("compressed 4.9", body, compressed="true")))
    body = compressed_body(TWO_TOPICS, is_v5=True, mappings=[])
    yield at_version(513, other(register("compressed 5.x", body, compressed="true")))
    body = compressed_body(TWO_TOPICS, is_v5=True, mappings=[MAPPING])
    yield at_version(513, other(register("compressed 5.x with a mapping", body, compressed="true")))
    body = compressed_body(TWO_TOPICS, is_v5=False)
    yield at_version(513, other(register("compressed 4.9 text at 513", body, compressed="true")))
    yield at_version(513, other(register("compressed garbage", b"garbage", compressed="true")))
    yield at_version(513, other(register("compressed, empty", b"", compressed="true")))
    body = plain_body(TWO_TOPICS)
    yield at_version(
        513, other(register("compressed claimed, plain sent", body, compressed="true"))
    )
    wrapper = json.dumps({"dataVersion": data_version(), "topicConfigTable": TWO_TOPICS}).encode()
    yield at_version(36, other(register("version 36, bare wrapper", wrapper)))
    yield at_version(36, other(register("version 36, wrapped body", plain_body(TWO_TOPICS))))
    yield at_version(36, other(register("version 36, no body", b"")))
    yield at_version(37, other(register("version 37, wrapped body", plain_body(TWO_TOPICS))))
    yield at_version(37, other(register("version 37, bare wrapper", wrapper)))
    units = topic("U1", flag=1) | topic("U2", flag=2) | topic("U3", flag=3) | topic("U4", flag=4)
    yield other(register("unit flags", plain_body(units)))
    yield ask("unit topics", 311)
    yield ask("unit subscription topics", 312)
    yield ask("non-unit topics with unit subscription", 313)
    odd_topics: Topics = {"T6": {"topicName": "T6"}}
    odd_topics |= {"T7": {"topicName": "T7", "readQueueNums": "3", "unknown": 1}}
    yield other(register("topics with few keys", plain_body(odd_topics)))
    yield route("route of a topic with few keys", "T6")
    yield route("route of a topic with a number as text", "T7")
    named = topic("a/ü€") | topic("T8")
    yield other(register("topic with other characters", plain_body(named)))
    yield route("route of a topic with other characters", "a/ü€")
    yield at_version(317, route("the same in the dialect", "a/ü€"))
    yield oneway(other(register("oneway", plain_body(topic("T9") | topic("T10")))))
    yield eventually(
        route("route after a oneway registration", "T9"), lambda a: a.header["code"] == 0
    )
    yield cluster("cluster at the end")
    yield ask("all topics at the end", 206)
    yield ask("topics of the cluster at the end", 224, cluster=CLUSTER)
    yield ask("system topics at the end", 304)


def damaged(step: Step) -> Callable[[], Iterator[Step]]:
    """One damaged registration and what it leaves behind."""

    def steps() -> Iterator[Step]:
        yield step
        yield cluster("cluster afterwards")
        yield ask("all topics afterwards", 206)
        yield ask("system topics afterwards", 304)

    return steps


UNNAMED: Topics = {"T6": {"perm": 6}, "T7": {"topicName": "T7"}}
DAMAGED_REGISTRATIONS = {
    "without a broker name": without(register(""), "register", "brokerName"),
    "without an address": without(register(""), "register", "brokerAddr"),
    "without a cluster": without(register(""), "register", "clusterName"),
    "without an HA address": without(register(""), "register", "haServerAddr"),
    "without a broker id": without(register(""), "register", "brokerId"),
    "with a broker id that is no number": register("register", brokerId="abc"),
    "with a negative broker id": register("register", brokerId="-1"),
    "with empty names": register("register", brokerName="", brokerAddr="", clusterName=""),
    "with one topic": register("register", plain_body(topic("T5"))),
    "with a null wrapper": register("register", b'{"topicConfigSerializeWrapper":null}'),
    "with a topic that lacks its name": register("register", plain_body(UNNAMED)),
}


def wiped_permissions() -> Iterator[Step]:
    mixed = topic("T1") | topic("T2", perm=4) | topic("T3", perm=2) | topic("T4", perm=7)
    yield register("topics of several permissions", plain_body(mixed))
    yield ask("wipe", 205, brokerName=BROKER)
    for name in mixed:
        yield route(f"{name} after wipe", name)
    yield register("register again, same version", plain_body(mixed))
    yield route("T1 after registering again, same version")
    yield ask("add", 327, brokerName=BROKER)
    for name in mixed:
        yield route(f"{name} after add", name)
    yield ask("wipe again", 205, brokerName=BROKER)
    yield register("register again, newer version", plain_body(mixed, data_version(2)))
    yield route("T1 after registering again, newer version")


def damaged_frames() -> Iterator[Step]:
    frames = {
        "length 4, header length 0": "00000004 00000000",
        "length 0": "00000000",
        "length 3": "00000003 000000",
        "negative length": "ffffffff 00000000",
        "header longer than the frame": "00000008 000000ff 7b7d7b7d",
        "unknown header type": "00000006 02000002 7b7d",
        "frame of 16 MiB and one byte": "00fffffd 00000002 7b7d",
        "frame announced as 1 GiB": "40000000 00000002 7b7d",
        "binary header of 3 bytes": "00000007 01000003 000000",
        "TLS-like first byte after a good request": "16030100",
    }
    for connection, (name, frame_hex) in enumerate(frames.items()):
        # 5.x looks at the first 12 bytes for a PROXY prefix before it reads any frame.
        yield on(str(connection), route(f"good request before: {name}"))
        yield on(str(connection), raw(name, frame_hex.replace(" ", "")))
        yield on(str(connection), Step("closed", f"connection after: {name}"))
    answer = '{"code":0,"flag":1,"opaque":{opaque},"version":513}'
    yield on("r", odd("an answer to nothing", 0, answer))
    yield on("r", route("route after an answer to nothing"))


def master_and_slave() -> Iterator[Step]:
    yield on("s", register_slave("slave without a master"))
    yield route("route with a slave only")
    yield cluster("cluster with a slave only")
    yield ask("system topics with a slave only", 304)
    yield ask("members with a slave only", 901, clusterName=CLUSTER, brokerName=BROKER)
    yield on("m", register("its master"))
    yield on("s", register_slave("slave with a master"))
    yield route("route with master and slave")
    yield at_version(317, route("the same in the dialect"))
    yield cluster("cluster with master and slave")
    yield at_version(317, cluster("the same for an old client"))
    yield ask("members", 901, clusterName=CLUSTER, brokerName=BROKER)
    body = plain_body(topic("T1", queues=16) | topic("S1"), data_version(7))
    yield on("s", register_slave("slave with other topics", body))
    yield route("route of a topic only the slave has", "S1")
    yield route("route after the slave's other view")
    yield on("m", query_version("master's data version", data_version()))
    yield on("s", query_version("slave's", data_version(7), brokerAddr=SLAVE_ADDRESS, brokerId="1"))
    yield close("m")
    yield eventually(route("route after the master's connection closed"), has_no_master)
    yield cluster("cluster after the master's connection closed")
    yield on("s", register_slave("slave after the master left"))
    yield on("s", register_slave("slave becomes master", brokerId="0", haServerAddr=SLAVE_HA))
    yield route("route after slave became master")
    yield cluster("cluster after slave became master")
    yield on("m", register("old master comes back as slave", brokerId="1"))
    yield route("route with exchanged roles")
    yield on("m2", register("second address claims id 0"))
    yield route("route after a second address claimed id 0")
    yield cluster("cluster after a second address claimed id 0")
    yield on("s", unregister("unregister slave", brokerAddr=SLAVE_ADDRESS, brokerId="0"))
    yield close("s")
    yield close("m")
    yield close("m2")
    yield eventually(cluster("cluster after all connections closed"), has_no_brokers)
    yield ask("all topics after all connections closed", 206)


def two_brokers() -> Iterator[Step]:
    yield on("m", register("first broker"))
    other = {
        "brokerName": "brk-b",
        "brokerAddr": "10.1.1.9:10911",
        "haServerAddr": "10.1.1.9:10912",
    }
    yield on(
        "n", register("second broker", plain_body(topic("T1", queues=8) | topic("B2")), **other)
    )
    third = {"brokerName": "brk-c", "brokerAddr": "10.1.1.5:10911", "clusterName": "C2"}
    yield on("o", register("third broker, other cluster", plain_body(TWO_TOPICS), **third))
    yield route("route of a topic on three brokers")
    yield at_version(317, route("the same in the dialect"))
    yield cluster("cluster with three brokers")
    yield ask("all topics", 206)
    yield ask("topics of the first cluster", 224, cluster="C1")
    yield ask("topics of the second cluster", 224, cluster="C2")
    yield ask("system topics", 304)
    yield ask("wipe one broker", 205, brokerName="brk-b")
    yield route("route after wiping one broker")
    yield ask("add one broker", 327, brokerName="brk-b")
    yield ask("delete a topic in one cluster", 216, topic="T1", clusterName="C2")
    yield route("route after deleting in one cluster")
    queue = {"brokerName": "brk-b", "perm": 6, "readQueueNums": 5, "writeQueueNums": 5}
    body = json.dumps({"queueDatas": [queue | {"topicSysFlag": 0}]}).encode()
    yield ask("register a topic of a known broker", 217, body, topic="R1")
    yield route("route of a registered topic", "R1")
    unknown = json.dumps({"queueDatas": [queue, queue | {"brokerName": "nobody"}]}).encode()
    yield ask("register a topic, one broker unknown", 217, unknown, topic="R2")
    yield route("route of a topic with an unknown broker", "R2")
    yield ask("register a topic with an empty queue list", 217, b'{"queueDatas":[]}', topic="R3")
    yield route("route of a topic with an empty queue list", "R3")
    yield ask("register a topic without a queue list", 217, b"{}", topic="R4")
    yield ask("register a topic with garbage", 217, b"garbage", topic="R5")
    more = json.dumps({"queueDatas": [queue | {"brokerName": "brk-c"}]}).encode()
    yield ask("register a known topic of another broker", 217, more, topic="R1")
    yield route("route of a topic registered twice", "R1")
    yield ask("all topics after registering", 206)
    yield close("n")
    yield eventually(route("route after the second broker left"), lambda a: b"brk-b" not in a.body)
    yield cluster("cluster after the second broker left")


def reconnection() -> Iterator[Step]:
    """One broker address on two connections: which close removes it?"""
    yield on("old", register("register on the first connection"))
    yield on("new", register("register again on another connection"))
    yield close("old")
    yield on("probe", register("another broker", brokerName="brk-z", brokerAddr="10.7.7.7:1"))
    yield close("probe")
    # The removal of brk-z comes after that of anything the older close removed.
    yield eventually(cluster("after the older connection closed"), lambda a: b"brk-z" not in a.body)
    yield route("route after the older connection closed")
    yield close("new")
    yield eventually(cluster("after the newer connection closed"), has_no_brokers)
    yield on("q", register("register on a third connection"))
    yield on("r", query_version("query data version on another connection", data_version()))
    yield close("r")
    yield route("route after the asking connection closed")
    yield close("q")
    yield eventually(cluster("after the registering connection closed"), has_no_brokers)


def two_on_one_connection() -> Iterator[Step]:
    yield on("x", register("first broker"))
    yield on("x", register("second broker", brokerName="brk-b", brokerAddr="10.1.1.9:10911"))
    yield cluster("two brokers of one connection")
    yield close("x")
    yield eventually(cluster("after one close"), lambda a: a.body.count(b'"brokerName"') < 2)
    yield on("probe", register("another broker", brokerName="brk-z", brokerAddr="10.7.7.7:1"))
    yield close("probe")
    yield eventually(cluster("after another close"), lambda a: b"brk-z" not in a.body)


def same_address_other_name() -> Iterator[Step]:
    yield on("x", register("register"))
    yield on("x", register("register the address under another name", brokerName="brk-b"))
    yield on("x", register("register the address in another cluster", clusterName="C2"))
    yield cluster("one address, two names, two clusters")
    yield route("route with one address under two names")
    yield close("x")
    yield eventually(cluster("after close"), lambda a: a.body.count(ADDRESS.encode()) < 2)


def expiry() -> Iterator[Step]:
    yield on("e", register("register with a short timeout", heartbeatTimeoutMillis="1000"))
    yield on("f", register("register with no timeout", brokerName="brk-b", brokerAddr="10.1.1.9:1"))
    yield route("route before expiry")
    yield eventually(route("route after expiry"), lambda a: b"brk-a" not in a.body)
    yield closed("e")
    yield cluster("cluster after expiry")


def order_topics() -> Iterator[Step]:
    yield register("register without order configuration")
    yield ask(
        "put order configuration", 100, namespace="ORDER_TOPIC_CONFIG", key="T1", value="brk-a:4"
    )
    yield register("register with order configuration")
    yield route("route of an ordered topic")
    yield at_version(317, route("the same in the dialect"))
    yield route("route of an unordered topic", "T2")
    yield ask("delete order configuration", 102, namespace="ORDER_TOPIC_CONFIG", key="T1")
    yield register("register after order configuration was deleted")
    yield route("route after order configuration was deleted")


def acting_master() -> Iterator[Step]:
    yield on("s", register_slave("slave, acting", enableActingMaster="true"))
    yield route("route with an acting slave")
    yield on("s", register_slave("slave, acting off", enableActingMaster="false"))
    yield cluster("cluster with an acting slave")
    yield on("m", register("master, acting", enableActingMaster="true"))
    yield on("s", register_slave("slave again, acting", enableActingMaster="true"))
    yield route("route with master and acting slave")
    yield ask("members", 901, clusterName=CLUSTER, brokerName=BROKER)
    yield close("m")
    yield eventually(route("route after the master left"), has_no_master)
    yield ask("members after the master left", 901, clusterName=CLUSTER, brokerName=BROKER)
    yield cluster("cluster after the master left")
    yield on("s", register_slave("slave registers on", enableActingMaster="true"))
    yield route("route after the slave registered on")
    yield on("m", register("master is back", enableActingMaster="true"))
    yield route("route after the master is back")


def min_broker_id() -> Iterator[Step]:
    acting = {"enableActingMaster": "true"}
    first = {"brokerAddr": "{listener s}"} | acting
    second = {"brokerAddr": "{listener t}", "brokerId": "2"} | acting
    master = {"brokerAddr": "{listener m}"} | acting
    yield on("t", register_slave("slave 2", **second))
    yield on("s", register_slave("slave 1", **first))
    yield heard("t", "slave 2 hears of slave 1")
    yield heard("s", "slave 1 hears of itself")
    yield on("m", register("master", **master))
    yield heard("m", "the master hears of itself")
    yield heard("t", "slave 2 hears of the master")
    yield heard("s", "slave 1 hears of the master")
    yield close("m")
    yield heard("s", "slave 1 hears that the master left")
    yield heard("t", "slave 2 hears that the master left")
    yield close("t")
    yield heard("s", "slave 1 hears that slave 2 left")


def zone() -> Iterator[Step]:
    yield register("with a zone", __ZONE_NAME="z1")
    yield route("route with a zone")
    yield cluster("cluster with a zone")
    yield route("route asked in the zone", __ZONE_NAME="z1")
    yield route("route asked with zone mode", __ZONE_NAME="z1", __ZONE_MODE="true")
    yield route("route asked in another zone", __ZONE_NAME="z2", __ZONE_MODE="true")
    other = {"brokerName": "brk-b", "brokerAddr": "10.1.1.9:1", "__ZONE_NAME": "z2"}
    yield register("another zone", **other)
    yield route("route of both zones")
    yield route("route asked in one of two zones", __ZONE_NAME="z1", __ZONE_MODE="true")


def state_version() -> Iterator[Step]:
    newer = plain_body(TWO_TOPICS, data_version(1, state=5))
    yield on("a", register("state version 5", newer))
    older = plain_body(topic("T1", queues=9) | topic("T2"), data_version(9, state=3))
    yield on("b", register("other address, state version 3", older, brokerAddr="10.1.1.9:1"))
    yield cluster("cluster after a smaller state version")
    equal = plain_body(topic("T1", queues=9) | topic("T2"), data_version(9, state=5))
    yield on("b", register("other address, state version 5", equal, brokerAddr="10.1.1.9:1"))
    yield cluster("cluster after an equal state version")
    yield on("a", register("first address, state version 4", older))
    yield cluster("cluster after the first address came back")


def configuration() -> Iterator[Step]:
    yield ask("all configuration", 319)
    yield ask("update one key", 318, b"orderMessageEnable=true\n")
    yield file("namesrv.conf", "file after one update")
    yield ask("configuration after one update", 319)
    yield ask("update two keys", 318, b"orderMessageEnable=false\nproductEnvName=pre\n")
    yield ask("configuration after two keys", 319)
    for key in ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"):
        yield ask(f"update {key}", 318, f"{key}=9\n".encode())
    yield ask("update a refused and a good key", 318, b"kvConfigPath=x\nproductEnvName=y\n")
    yield ask("configuration after refusals", 319)
    yield ask("update a key of the network", 318, b"serverWorkerThreads=9\n")
    yield ask("update the port", 318, b"listenPort=9\n")
    yield file("namesrv.conf", "file at the end")
    yield file("namesrv.properties", "the other file")
    yield ask("configuration at the end", 319)
    yield ask("switch topic lists off", 318, b"enableTopicList=false\nenableAllTopicList=false\n")
    yield ask("all topics after they were switched off", 206)
    yield ask("unit topics after they were switched off", 311)


ODD_UPDATES = {
    "an unknown key": b"noSuchKey=1\n",
    "an unknown and a known key": b"noSuchKey=1\nproductEnvName=x\n",
    "an unparsable number": b"serverWorkerThreads=abc\nproductEnvName=y\n",
    "a number with blanks": b"serverWorkerThreads = 7 \n",
    "an unparsable boolean": b"orderMessageEnable=maybe\n",
    "a boolean in capitals": b"orderMessageEnable=TRUE\n",
    "a boolean as a number": b"orderMessageEnable=1\n",
    "no body": b"",
    "blanks only": b"\n\n",
    "a comment only": b"# nothing\n",
    "no equals sign": b"garbage\n",
    "an empty value": b"productEnvName=\n",
    "blanks, a colon, escapes": b" productEnvName : a\\u0041\\tb \n",
    "a bad escape": b"productEnvName=\\u00zz\n",
    "a continued line": b"productEnvName=one\\\n   two\n",
    "non-ASCII": "productEnvName=ü€".encode(),
    "Windows line ends": b"productEnvName=w\r\norderMessageEnable=true\r\n",
}
ORDINARY = b"productEnvName=center\norderMessageEnable=false\nserverWorkerThreads=8\n"


def odd_updates() -> Iterator[Step]:
    for name, text in ODD_UPDATES.items():
        yield ask(f"update: {name}", 318, text)
        yield file("namesrv.conf", f"file after: {name}")
        yield ask(f"configuration after: {name}", 319)
        yield ask(f"back to ordinary after: {name}", 318, ORDINARY)


def topic_lists_off() -> Iterator[Step]:
    yield register("register")
    yield ask("all topics", 206)
    yield ask("topics of the cluster", 224, cluster=CLUSTER)
    yield ask("system topics", 304)
    yield ask("unit topics", 311)
    yield ask("unit subscription topics", 312)
    yield ask("non-unit topics with unit subscription", 313)


def waiting_for_service() -> Iterator[Step]:
    yield route("route while waiting", "nowhere")
    yield register("register while waiting")
    yield route("route of a known topic while waiting")
    yield cluster("cluster while waiting")


def delete_with_registration() -> Iterator[Step]:
    yield register("register two topics")
    yield register("register one topic", plain_body(topic("T1"), data_version(2)))
    yield route("route of the topic left out", "T2")
    yield register("register none", plain_body({}, data_version(3)))
    yield route("route of the last topic")
    yield ask("all topics", 206)


def no_order_to_broker() -> Iterator[Step]:
    yield ask(
        "put order configuration", 100, namespace="ORDER_TOPIC_CONFIG", key="T1", value="brk-a:4"
    )
    yield register("register")


def kept_kv() -> Iterator[Step]:
    yield ask("get what the file holds", 101, namespace="n1", key="k1")
    yield ask("list what the file holds", 219, namespace="n1")
    yield file("kvConfig.json", "KV file before any change")
    yield ask("put", 100, namespace="n1", key="k2", value="v2")
    yield file("kvConfig.json", "KV file after a put")


V5 = ("5.5.0",)
SCENARIOS = (
    Scenario("empty server", empty_server),
    Scenario("protocol edges", protocol_edges),
    Scenario("KV configuration", kv_config),
    Scenario("damaged frames", damaged_frames),
    Scenario(
        "KV file from before",
        kept_kv,
        files=(("kvConfig.json", '{ "configTable": {"n1": {"k1": "v1", "ü": "€"}, "n2": {}} }\n'),),
    ),
    Scenario("KV file empty", kept_kv, files=(("kvConfig.json", ""),)),
    Scenario("first registration", first_registration),
    Scenario("registration bodies", bodies),
    *(Scenario(f"registration {name}", damaged(s)) for name, s in DAMAGED_REGISTRATIONS.items()),
    Scenario("wiped permissions", wiped_permissions),
    Scenario("master and slave", master_and_slave),
    Scenario("two brokers", two_brokers),
    Scenario("reconnection", reconnection),
    Scenario("two brokers on one connection", two_on_one_connection),
    Scenario("one address, other names", same_address_other_name),
    Scenario("expiry", expiry, lines=V5),
    Scenario("order topics", order_topics, (("orderMessageEnable", "true"),)),
    Scenario("order topics, off", order_topics),
    Scenario("acting master, off", acting_master, lines=V5),
    Scenario("acting master", acting_master, (("supportActingMaster", "true"),), V5),
    Scenario("smallest broker id", min_broker_id, (("notifyMinBrokerIdChanged", "true"),), V5),
    Scenario("zone", zone, lines=V5),
    Scenario("state version", state_version, lines=V5),
    Scenario("configuration", configuration),
    Scenario("odd configuration updates", odd_updates),
    Scenario(
        "topic lists off",
        topic_lists_off,
        (("enableTopicList", "false"), ("enableAllTopicList", "false")),
        V5,
    ),
    Scenario("waiting for service", waiting_for_service, (("needWaitForService", "true"),), V5),
    Scenario(
        "deletion by registration",
        delete_with_registration,
        (("deleteTopicWithBrokerRegistration", "true"),),
        V5,
    ),
    Scenario(
        "no order topics to brokers",
        no_order_to_broker,
        (("returnOrderTopicConfigToBroker", "false"),),
        V5,
    ),
)
