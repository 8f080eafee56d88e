"""Which addresses a broker announces."""

from emberq.broker.addresses import announced_addresses
from emberq.broker.config import BrokerConfig
from emberq.remoting.addresses import local_address


def test_configured_addresses_are_announced() -> None:
    config = BrokerConfig(broker_ip1="10.0.0.1", broker_ip2="10.0.0.2", ha_listen_port=7)

    addresses = announced_addresses(config, 10_911)

    assert (addresses.main, addresses.ha) == ("10.0.0.1:10911", "10.0.0.2:7")


def test_who_listens_on_one_address_announces_that_one() -> None:
    addresses = announced_addresses(BrokerConfig(bind_address="127.0.0.1"), 10_911)

    assert (addresses.main, addresses.ha) == ("127.0.0.1:10911", "127.0.0.1:10912")


def test_who_listens_everywhere_announces_an_address_of_the_host() -> None:
    assert announced_addresses(BrokerConfig(), 1).ip == local_address()


def test_an_ipv6_address_has_brackets() -> None:
    assert announced_addresses(BrokerConfig(broker_ip1="::1"), 9).main == "[::1]:9"
