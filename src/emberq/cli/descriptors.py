"""How many descriptors a server may have: sockets, and files of the store."""

import logging

log = logging.getLogger(__name__)


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one: a shell's 1,024 are gone at 1,000 connections."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # macOS says "infinity" and means less
        log.warning("descriptor_limit soft=%d hard=%d reason=%s", soft, hard, error)
    else:
        log.info("descriptor_limit before=%d now=%d", soft, hard)
