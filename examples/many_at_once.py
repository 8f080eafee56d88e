"""Many single sends that leave in few requests.

python examples/many_at_once.py localhost:9876
"""

import asyncio
import sys

from emberq.aio import Producer


async def main(name_server: str) -> None:
    # A send waits up to 5 ms for others; each still gets its own id and offset.
    async with Producer("metrics", name_server=name_server, linger=0.005) as producer:
        results = await asyncio.gather(
            *(producer.send("readings", b"21.5", keys=f"sensor-{n}") for n in range(1000))
        )
    places = {(result.queue, result.queue_offset) for result in results}
    print(f"{len(places)} messages, each in its own place")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9876"))
