"""What becomes of a message that a group could not consume: again later, or a dead letter."""

from emberq.protocol.versions import V3_4_9

# The first retry waits for level 3, 10 s by default; each further one a level longer.
FIRST_RETRY_LEVEL = 3
DEAD_LETTER_QUEUE_COUNT = 1


def retry_limit(group_max: int, requested: int | None, client_version: int) -> int:
    """How often a message may come back: as the client says, else as its group is set up."""
    if requested is not None and client_version >= V3_4_9:  # before, the field meant nothing
        return requested
    return group_max


def retry_level(attempts: int, limit: int, requested_level: int) -> int | None:
    """The delay level of the next attempt at a message that is given back; None: a dead letter.

    Args:
        attempts: how often the message was delivered again already.
        requested_level: below 0 gives up at once, 0 leaves the choice to the broker.
    """
    if attempts >= limit or requested_level < 0:
        return None
    return requested_level or FIRST_RETRY_LEVEL + attempts
