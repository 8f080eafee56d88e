"""Where is a topic? (105)"""

from collections.abc import Awaitable, Callable

from emberq.nameserver.config import NameServerConfig
from emberq.nameserver.route_answers import RouteAnswers, within_zone
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.fastjson import Dialect
from emberq.protocol.frame import success_frame
from emberq.protocol.versions import V4_9_4
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer, HandlerRegistry

NO_ROUTE_REMARK = (
    "No topic route info in name server for the topic: {topic}\n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)

_NO_FIELDS: dict[str, str] = {}
_STRICT, _FASTJSON = Dialect.STRICT, Dialect.FASTJSON

# Asks the name servers of the product environment; None if they do not know the topic either.
AskElsewhere = Callable[[str], Awaitable[bytes | None]]


class RouteHandlers:
    def __init__(
        self,
        answers: RouteAnswers,
        config: Callable[[], NameServerConfig],
        seconds_up: Callable[[], float],
        ask_elsewhere: AskElsewhere | None,
    ) -> None:
        self._answers = answers
        self._config = config
        self._seconds_up = seconds_up
        self._ask_elsewhere = ask_elsewhere
        self._is_ready = False

    def add_to(self, registry: HandlerRegistry) -> None:
        handler = self.get_route if self._ask_elsewhere is None else self.get_route_or_ask
        registry.add(RequestCode.GET_ROUTEINFO_BY_TOPIC, handler)

    def get_route(self, command: Command, _: Connection) -> Answer:
        found = self._find(command)
        return success_frame(command, found) if isinstance(found, bytes) else found

    async def get_route_or_ask(self, command: Command, _: Connection) -> Answer:
        """Cluster-test mode: a topic that is not here may be in the product environment."""
        found: bytes | Command | None = self._find(command)
        if isinstance(found, Command):
            topic = (command.fields or _NO_FIELDS).get("topic")
            is_unknown = found.code == ResponseCode.TOPIC_NOT_EXIST
            if not is_unknown or not topic or self._ask_elsewhere is None:
                return found
            found = await self._ask_elsewhere(topic) or found
        return success_frame(command, found) if isinstance(found, bytes) else found

    def _find(self, command: Command) -> bytes | Command:
        """The body of a route, or the answer that says why there is none."""
        if not self._is_ready and not self._has_waited():
            return answer(command, ResponseCode.SYSTEM_ERROR, "name server not ready")
        fields = command.fields or _NO_FIELDS
        topic = fields.get("topic", "null")
        is_strict = (
            command.version >= V4_9_4 or fields.get("acceptStandardJsonOnly", "").lower() == "true"
        )
        body = self._answers.get(topic, _STRICT if is_strict else _FASTJSON)
        if body is None:
            remark = NO_ROUTE_REMARK.format(topic=topic)
            return answer(command, ResponseCode.TOPIC_NOT_EXIST, remark)
        if "__ZONE_MODE" in fields and fields["__ZONE_MODE"].lower() == "true":
            return self._zone_body(topic, fields.get("__ZONE_NAME"), body)
        return body

    def _has_waited(self) -> bool:
        config = self._config()
        self._is_ready = (
            not config.need_wait_for_service
            or self._seconds_up() >= config.wait_seconds_for_service
        )
        return self._is_ready

    def _zone_body(self, topic: str, zone_name: str | None, body: bytes) -> bytes:
        route = self._answers.route(topic)
        if route is None or not zone_name:
            return body
        # The official server writes these answers in the dialect, whoever asks.
        return encode_body(within_zone(route, zone_name), _FASTJSON)
