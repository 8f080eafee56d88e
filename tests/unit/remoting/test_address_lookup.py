"""Where lists of name servers are published."""

import pytest

from emberq.remoting.address_lookup import lookup_url


@pytest.mark.parametrize(
    ("domain", "url"),
    [
        ("jmenv.tbsite.net", "http://jmenv.tbsite.net:8080/rocketmq/nsaddr-center?nofix=1"),
        ("localhost:1234", "http://localhost:1234/rocketmq/nsaddr-center?nofix=1"),
    ],
)
def test_addresses_are_looked_up_where_official_clients_look(domain: str, url: str) -> None:
    assert lookup_url(domain, "nsaddr", "center") == url


def test_without_an_environment_the_plain_list_is_asked_for() -> None:
    assert lookup_url("host", "nsaddr") == "http://host:8080/rocketmq/nsaddr"
