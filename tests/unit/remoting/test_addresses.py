"""Addresses and lists of them."""

import pytest

from emberq.errors import ConfigError
from emberq.remoting.addresses import join_address, split_address, split_list


@pytest.mark.parametrize(
    ("text", "parts"),
    [("localhost:9876", ("localhost", 9876)), ("[::1]:1", ("::1", 1)), (" a:2 ", ("a", 2))],
)
def test_addresses_are_split_at_the_last_colon(text: str, parts: tuple[str, int]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["", "localhost", ":9876", "host:", "host:x", "host:²"])
def test_what_has_no_port_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        split_address(text)


def test_ipv6_hosts_are_joined_in_brackets() -> None:
    assert join_address("::1", 9) == "[::1]:9"
    assert join_address("h", 9) == "h:9"


def test_lists_are_separated_by_semicolons_and_tolerate_commas() -> None:
    assert split_list("a:1; b:2,c:3;;") == ["a:1", "b:2", "c:3"]
