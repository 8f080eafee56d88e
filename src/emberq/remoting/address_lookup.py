"""Lists of name servers that a web server publishes."""

from http.client import HTTPException
from urllib.error import URLError
from urllib.request import urlopen

from emberq.errors import RemotingError
from emberq.remoting.addresses import split_list

LOOKUP_TIMEOUT_S = 3.0
LOOKUP_ANSWER_MAX_BYTES = 64 * 1024


def lookup_url(domain: str, subgroup: str, environment_name: str = "") -> str:
    """Where the addresses of name servers are published."""
    host = domain if ":" in domain else f"{domain}:8080"
    suffix = f"-{environment_name}?nofix=1" if environment_name else ""
    return f"http://{host}/rocketmq/{subgroup}{suffix}"


def look_up(url: str) -> list[str]:
    """Ask for a published list; call it in a thread.

    Raises:
        RemotingError: there is no answer, or a failure.
    """
    try:
        with urlopen(url, timeout=LOOKUP_TIMEOUT_S) as response:
            line = response.read(LOOKUP_ANSWER_MAX_BYTES).decode("latin-1").splitlines()[:1]
    except (URLError, HTTPException, OSError) as error:
        raise RemotingError(f"{url}: {error}") from None
    return split_list((line or [""])[0])
