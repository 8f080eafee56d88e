"""Lists of topics and brokers, and what administrators do to them."""

from collections.abc import Callable

from emberq.model.topic import TopicFlag
from emberq.nameserver.config import NameServerConfig
from emberq.nameserver.route_table import RouteTable
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.routes import ClusterTable, TopicNames
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.header_fields import to_fields
from emberq.protocol.headers.nameserver import (
    AddWritePermOfBrokerResponse,
    WipeWritePermOfBrokerResponse,
)
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry

DISABLED_REMARK = "disable"


class TopicHandlers:
    """Official servers take a missing field as "no such thing" here, not as an error."""

    def __init__(self, table: RouteTable, config: Callable[[], NameServerConfig]) -> None:
        self._table = table
        self._config = config

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.GET_BROKER_CLUSTER_INFO, self.get_clusters)
        registry.add(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self.get_all)
        registry.add(RequestCode.GET_TOPICS_BY_CLUSTER, self.get_of_cluster)
        registry.add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self.get_system)
        registry.add(RequestCode.DELETE_TOPIC_IN_NAMESRV, self.delete)
        registry.add(RequestCode.WIPE_WRITE_PERM_OF_BROKER, self.wipe_write_permission)
        registry.add(RequestCode.ADD_WRITE_PERM_OF_BROKER, self.add_write_permission)
        for code, accepts in (
            (RequestCode.GET_UNIT_TOPIC_LIST, _is_unit),
            (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, _has_unit_subscription),
            (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, _has_only_unit_subscription),
        ):
            registry.add(code, self._flag_list(accepts))

    def get_clusters(self, command: Command, _: Connection) -> Command:
        body = ClusterTable(brokers=self._table.brokers(), clusters=self._table.clusters())
        return answer(command, body=encode_body(body))

    def get_all(self, command: Command, _: Connection) -> Command:
        if not self._config().enable_all_topic_list:
            return answer(command, ResponseCode.SYSTEM_ERROR, DISABLED_REMARK)
        return _names(command, self._table.topics())

    def get_of_cluster(self, command: Command, _: Connection) -> Command:
        if not self._config().enable_topic_list:
            return answer(command, ResponseCode.SYSTEM_ERROR, DISABLED_REMARK)
        return _names(command, self._table.topics_of_cluster(_field(command, "cluster")))

    def get_system(self, command: Command, _: Connection) -> Command:
        """Clusters and brokers have a topic each, named like them."""
        clusters = self._table.clusters()
        names = {*clusters, *(name for brokers in clusters.values() for name in brokers)}
        body = TopicNames(broker_address=self._table.some_address(), topics=sorted(names))
        return answer(command, body=encode_body(body))

    def delete(self, command: Command, _: Connection) -> Command:
        self._table.delete_topic(_field(command, "topic"), _field(command, "clusterName") or None)
        return answer(command)

    def wipe_write_permission(self, command: Command, _: Connection) -> Command:
        count = self._table.wipe_write_permission(_field(command, "brokerName"))
        return answer(command, fields=to_fields(WipeWritePermOfBrokerResponse(topic_count=count)))

    def add_write_permission(self, command: Command, _: Connection) -> Command:
        count = self._table.add_write_permission(_field(command, "brokerName"))
        return answer(command, fields=to_fields(AddWritePermOfBrokerResponse(topic_count=count)))

    def _flag_list(
        self, accepts: Callable[[int], bool]
    ) -> Callable[[Command, Connection], Command]:
        def get_flagged(command: Command, _: Connection) -> Command:
            if not self._config().enable_topic_list:
                return answer(command, ResponseCode.SYSTEM_ERROR, DISABLED_REMARK)
            return _names(command, self._table.topics_where(accepts))

        return get_flagged


def _names(command: Command, topics: list[str]) -> Command:
    return answer(command, body=encode_body(TopicNames(topics=topics)))


def _field(command: Command, name: str) -> str:
    return (command.fields or {}).get(name, "")


def _is_unit(flag: int) -> bool:
    return bool(flag & TopicFlag.UNIT)


def _has_unit_subscription(flag: int) -> bool:
    return bool(flag & TopicFlag.UNIT_SUBSCRIPTION)


def _has_only_unit_subscription(flag: int) -> bool:
    return _has_unit_subscription(flag) and not _is_unit(flag)
