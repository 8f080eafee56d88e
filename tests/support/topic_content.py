"""What a topic holds, by queue and in order, as any consumer would see it."""

from contextlib import closing

from emberq.client.aio.scans import Scans
from emberq.client.core.received import ReceivedMessage, received_messages
from emberq.spark.links import Link
from emberq.spark.options import ConnectionOptions


def messages_of(name_server: str, topic: str) -> list[list[ReceivedMessage]]:
    # A client of its own: a shared one would go on asking for a cluster that is gone.
    with closing(Link(ConnectionOptions(name_server=name_server))) as link:
        return link.run(lambda: _read(link.scans, topic), 20)


def bodies_of(name_server: str, topic: str) -> list[list[str]]:
    return [[message.text() for message in own] for own in messages_of(name_server, topic)]


async def _read(scans: Scans, topic: str) -> list[list[ReceivedMessage]]:
    found = []
    for queue, head in (await scans.heads(await scans.queues(topic))).items():
        own: list[ReceivedMessage] = []
        offset = head.min_offset
        while offset < head.max_offset:
            part = await scans.pull(queue, offset, head.max_offset)
            own += received_messages(part.content, queue)
            offset = part.next_offset
        found.append(own)
    return found
