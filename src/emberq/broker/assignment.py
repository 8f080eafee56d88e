"""Which queues of a topic a member of a group gets when the broker shares them out. Pure.

The same strategies, with the same results, as clients that share out queues among themselves.
"""

from collections.abc import Callable, Sequence

from emberq.model.queue import MessageQueue
from emberq.model.route import TopicRoute
from emberq.model.topic import Permission

Queues = Sequence[MessageQueue]
Allocate = Callable[[int, Queues, int], list[MessageQueue]]


def readable_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """Every queue that consumers may read, in the order in which they are shared out."""
    return sorted(
        MessageQueue(data.broker_name, queue_id, topic)
        for data in route.queues
        if data.permission & Permission.READ
        for queue_id in range(data.read_queue_count)
    )


def share_of(
    client_id: str, client_ids: Sequence[str], queues: Queues, strategy_name: str | None
) -> list[MessageQueue] | None:
    """The client's part of sorted queues; None if it has no name, or the strategy is unknown."""
    allocate = _STRATEGIES.get(strategy_name or "")
    if allocate is None or not client_id:
        return None
    members = sorted(client_ids)
    if client_id not in members:
        return []
    return allocate(members.index(client_id), queues, len(members))


def _in_blocks(index: int, queues: Queues, member_count: int) -> list[MessageQueue]:
    size, rest = divmod(len(queues), member_count)
    start = index * size + min(index, rest)
    return list(queues[start : start + size + (index < rest)])


def _in_circles(index: int, queues: Queues, member_count: int) -> list[MessageQueue]:
    return list(queues[index::member_count])


_STRATEGIES: dict[str, Allocate] = {"AVG": _in_blocks, "AVG_BY_CIRCLE": _in_circles}
