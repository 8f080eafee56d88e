"""What producers and consumers are to the client that they share."""

from typing import Protocol

from emberq.protocol.bodies.heartbeat import ConsumerPresence
from emberq.protocol.command import Command


class ProducerPart(Protocol):
    """A producer group of this client."""

    async def check_transaction(self, request: Command, address: str) -> None:
        """A broker asks for the outcome of a transaction (39)."""


class ConsumerPart(Protocol):
    """A consumer group of this client."""

    def presence(self) -> ConsumerPresence:
        """What heartbeats say about it."""

    def share_out_soon(self) -> None:
        """The group or a route has changed: compute the share of queues again."""

    def met_again(self) -> None:
        """A broker has a new connection to us: it may have forgotten what it knew."""

    async def reset_offsets(self, request: Command) -> None:
        """A broker moves the group (220)."""

    def offsets_answer(self, request: Command) -> Command:
        """Where the consumer stands (221)."""

    async def running_answer(self, request: Command) -> Command:
        """What the consumer is doing (307)."""

    async def direct_answer(self, request: Command) -> Command:
        """Consume one message now and say how that went (309)."""
