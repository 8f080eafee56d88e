"""A consumer lets the broker share out the queues (400); a tool chooses between pull and pop (401),
and a slave asks what was chosen (402).

Every group pulls: POP is not offered yet, and to ask for it is refused.
"""

from collections.abc import Awaitable, Callable

from emberq.broker.assignment import readable_queues, share_of
from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.members import Consumers
from emberq.broker.request_modes import RequestModes
from emberq.broker.topics import Topics
from emberq.errors import ProtocolError, RequestRejected
from emberq.model.queue import MessageQueue
from emberq.model.route import TopicRoute
from emberq.model.subscription import MessageModel, MessageRequestMode
from emberq.model.system_topics import is_retry_topic
from emberq.protocol.bodies.assignment import AssignmentQuery, Assignments, QueueAssignment
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.request_mode import RequestModeSetting
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry


class AssignmentHandlers:
    def __init__(
        self,
        *,
        consumers: Consumers,
        topics: Topics,
        groups: Groups,
        find_route: Callable[[str], Awaitable[TopicRoute | None]],
        modes: RequestModes,
        save_modes: Callable[[], Awaitable[None]],
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._consumers = consumers
        self._topics = topics
        self._groups = groups
        self._find_route = find_route
        self._modes = modes
        self._save_modes = save_modes
        self._config = config

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.QUERY_ASSIGNMENT, self.query)
        registry.add(RequestCode.SET_MESSAGE_REQUEST_MODE, self.set_mode)
        registry.add(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, self.get_modes)

    async def query(self, command: Command, connection: Connection) -> Command:
        query = decode_body(AssignmentQuery, command.body)
        if query.topic is None or query.group is None or query.message_model is None:
            raise ProtocolError("a topic, a group or a message model is missing")
        queues = await self._queues_for(query, query.topic)
        assignments = None
        if queues is not None:
            assignments = [
                QueueAssignment(queue=queue, mode=MessageRequestMode.PULL) for queue in queues
            ]
        return answer(command, body=encode_body(Assignments(assignments=assignments)))

    async def _queues_for(self, query: AssignmentQuery, topic: str) -> list[MessageQueue] | None:
        """The client's queues; None if that cannot be said: it then keeps what it has."""
        route = await self._find_route(topic)
        queues = [] if route is None else readable_queues(topic, route)
        if not queues:
            return None
        is_shared = query.message_model is MessageModel.CLUSTERING
        if not is_shared or not self._config().server_load_balancer_enable:
            return queues
        group = self._consumers.get(query.group or "")
        if group is None:
            return None
        return share_of(query.client_id or "", group.client_ids(), queues, query.strategy_name)

    async def set_mode(self, command: Command, connection: Connection) -> Command:
        setting = decode_body(RequestModeSetting, command.body)
        if setting.topic is None or setting.group is None:
            raise ProtocolError("a topic or a group is missing")
        if is_retry_topic(setting.topic):
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode"
            )
        if self._topics.get(setting.topic) is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{setting.topic}] not exist")
        if self._groups.find(setting.group) is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"
            )
        if setting.mode is MessageRequestMode.POP:
            raise RequestRejected(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "POP is not offered by this broker"
            )
        self._modes.put(setting.topic, setting.group, setting)
        await self._save_modes()
        return answer(command)

    def get_modes(self, command: Command, connection: Connection) -> Command:
        return answer(command, body=encode_body(self._modes.table()))
