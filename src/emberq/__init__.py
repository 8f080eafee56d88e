"""EmberQ: a message-queue system in Python, compatible with Apache RocketMQ."""

from emberq.errors import EmberqError

__all__ = ["EmberqError", "__version__"]

__version__ = "0.1.0.dev0"
