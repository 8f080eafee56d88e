"""How a server looks for garbage: rarely, and not among what lives as long as it does."""

import gc

# A topic table of 10,000 entries makes more objects than Python's own threshold of 700 expects:
# the collector looked through it 28 times while it was read, which took as long as reading it.
NEW_OBJECTS_MAX = 50_000


def collect_garbage_as_server() -> None:
    """Call it when all is wired: modules, handlers and settings are never looked through again."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, *gc.get_threshold()[1:])
