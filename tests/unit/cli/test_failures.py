"""Failures as a sentence."""

import errno

import pytest

from emberq.cli.failures import sentence
from emberq.errors import CallTimeout, EmberqError, TopicNotFound


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TopicNotFound("no route to orders"), "no route to orders"),
        (CallTimeout("no answer within 3 s"), "no answer within 3 s"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a/page.html"),
            "a/page.html: No such file or directory",
        ),
        (OSError(errno.EXDEV, "Invalid link", "a", None, "b"), "a: b: Invalid link"),
        (OSError("cannot open s3://lake"), "cannot open s3://lake"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_it_says_what_is_wrong_with_what(error: EmberqError | OSError, said: str) -> None:
    assert sentence(error) == said
