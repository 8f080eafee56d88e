"""What the environment of the driver adds to options: executors need none of it."""

import os
from collections.abc import Mapping

from emberq.client.aio.name_servers import ENVIRONMENT_KEY
from emberq.spark.option_values import OF_TABLES

ACCESS_KEY, SECRET_KEY = "EMBERQ_ACCESS_KEY", "EMBERQ_SECRET_KEY"


def with_environment(
    given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The same options, with the name servers and the credentials that they leave open."""
    names = {key.lower().removeprefix(OF_TABLES) for key, text in given.items() if text}
    added = {}
    if not names & {"nameserver", "endpoints", "store"}:
        added["nameServer"] = environment.get(ENVIRONMENT_KEY, "")
    if not names & {"accesskey", "secretkey", "store"}:
        added["accessKey"] = environment.get(ACCESS_KEY, "")
        added["secretKey"] = environment.get(SECRET_KEY, "")
    return {**given, **{name: text for name, text in added.items() if text}}
