"""Names within a namespace."""

import pytest

from emberq.client.core.namespaces import unwrap, wrap


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%group", "%RETRY%ns%group"),
        ("%DLQ%group", "%DLQ%ns%group"),
    ],
)
def test_names_are_wrapped_once_and_unwrapped_again(name: str, wrapped: str) -> None:
    assert wrap("ns", name) == wrapped
    assert wrap("ns", wrapped) == wrapped
    assert unwrap("ns", wrapped) == name


@pytest.mark.parametrize("name", ["TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "CID_RMQ_SYS_a"])
def test_system_names_stay_alone(name: str) -> None:
    assert wrap("ns", name) == name


def test_without_a_namespace_nothing_changes() -> None:
    assert wrap(None, "orders") == "orders"
    assert unwrap("", "ns%orders") == "ns%orders"
