"""Topics full of messages as official clients make them: six properties, no two bodies equal."""

from emberq import Message, MessageQueue, Producer

BROKER_NAME = "broker-a"
BATCH_BYTES = 128 * 1024


def fill(address: str, topic: str, count: int, *, size: int, queues: int) -> None:
    """Messages go to all queues in turns, a batch each."""
    at_once = max(BATCH_BYTES // size, 1)
    with Producer("bench", name_server=address) as producer:
        producer.create_topic(topic, queues=queues)
        for batch, first in enumerate(range(0, count, at_once)):
            producer.send_batch(
                [
                    Message(
                        topic,
                        body(number, size),
                        tags=f"tag-{number % 5}",
                        keys=f"key-{number}",
                        properties={"user": f"u{number % 1000}", "region": "eu-central"},
                    )
                    for number in range(first, min(first + at_once, count))
                ],
                queue=MessageQueue(BROKER_NAME, batch % queues, topic),
            )


def body(number: int, size: int) -> bytes:
    """Lines of JSON that differ: a column file must not be able to store one of them once."""
    lines: list[str] = []
    length = 0
    while length < size:
        sku = (number * 2_654_435_761 + len(lines) * 40_503_877) % 10**12
        lines.append(f'{{"order":{number},"sku":"{sku:012d}","price":{sku % 997}.{sku % 89:02d}}}')
        length += len(lines[-1])
    return "".join(lines).encode()[:size]
