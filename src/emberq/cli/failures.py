"""What a person reads of a failure: one sentence."""

from emberq.errors import EmberqError


def sentence(error: EmberqError | OSError) -> str:
    """Ours say what is wrong; those of the system say it once it is told of what."""
    if isinstance(error, EmberqError) or not error.strerror:
        return str(error) or type(error).__name__
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([*names, error.strerror])
