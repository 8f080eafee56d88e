"""The public names, and that both clients offer the same."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import emberq
import emberq.aio
from emberq.client.aio import at_hand as aio_at_hand
from emberq.client.blocking import at_hand as blocking_at_hand
from emberq.client.blocking import client as blocking_client
from emberq.client.blocking import consumers as blocking_consumers

# The log handler is for programs of both kinds.
OWN = {"EmberqError", "TopicLogHandler", "__version__"}
PAIRS: list[tuple[type[Any], type[Any]]] = [
    (emberq.aio.Client, blocking_client.Client),
    (emberq.aio.Producer, blocking_client.Producer),
    (emberq.aio.PushConsumer, blocking_consumers.PushConsumer),
    (emberq.aio.PullConsumer, blocking_consumers.PullConsumer),
    (emberq.aio.Transaction, emberq.Transaction),
    (aio_at_hand.AtHand, blocking_at_hand.AtHand),
]
# What producers and consumers and their client say to each other.
INTERNAL = {
    *("add_consumer", "add_producer", "remove_consumer", "remove_producer", "spawn", "watch"),
    *("broker_address", "call", "call_broker", "check_running", "publish_queues", "refresh_soon"),
    *("request", "subscribe_queues", "unwrap", "wrap", "check_transaction", "is_hooked"),
    *("direct_answer", "give_up", "offsets_answer", "presence", "reset_offsets", "works"),
    *("running_answer", "share_out_soon", "submit", "take", "committed", "is_ordered", "workers"),
    *("half", "send_half", "watched", "decide", "met_again", "forget"),
}


def test_both_packages_export_the_same_names() -> None:
    assert set(emberq.__all__) - OWN == set(emberq.aio.__all__)
    for name in emberq.__all__:
        assert getattr(emberq, name) is not None
    stub = Path(emberq.__file__).with_name("__init__.pyi").read_text()
    assert set(re.findall(r" as (\w+)$", stub, re.MULTILINE)) == set(emberq.__all__) - {
        "__version__"
    }
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(emberq, "Nothing")  # noqa: B009 - a type checker knows better


@pytest.mark.parametrize(("for_loops", "for_threads"), PAIRS)
def test_the_blocking_half_has_the_same_methods_and_arguments(
    for_loops: type[Any], for_threads: type[Any]
) -> None:
    public = {name for name in dir(for_loops) if not name.startswith("_")} - INTERNAL
    offered = {name for name in dir(for_threads) if not name.startswith("_")}
    assert public <= offered
    # Users do not make transactions themselves.
    own = set() if for_loops is emberq.aio.Transaction else {"__init__"}
    for name in own | public:
        one, other = getattr(for_loops, name), getattr(for_threads, name)
        if callable(one):
            assert _arguments(one) == _arguments(other), name


def _arguments(function: Any) -> list[tuple[str, Any, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


def test_importing_the_package_imports_no_client() -> None:
    """Servers import it too."""
    program = "import emberq, sys; sys.exit(any('client' in name for name in sys.modules))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
