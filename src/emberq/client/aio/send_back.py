"""Gives messages back that could not be consumed: by send-back, else as an ordinary message."""

import logging
import time

from emberq.client.aio.client import Client
from emberq.client.aio.heartbeats import INNER_PRODUCER_GROUP
from emberq.client.core.received import ReceivedMessage
from emberq.client.core.send_attempts import is_result
from emberq.errors import ClientError, RemotingError
from emberq.model.system_topics import DEFAULT_TOPIC, retry_topic
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.protocol.headers.send import ConsumerSendMessageBack
from emberq.record import property_names as names
from emberq.record.properties import format_properties

log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT_S = 5.0
# Retry n of a message waits as long as this level plus n says.
FIRST_RETRY_LEVEL = 3
DEAD_LETTER_LEVEL = -1


class SendBack:
    def __init__(self, client: Client, group: str, reconsume_max: int) -> None:
        self._client = client
        self._group = group
        self._reconsume_max = reconsume_max

    async def give_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        """True: the broker has it again, and will deliver it later or keep it as dead."""
        try:
            await self._send_back(message, delay_level)
        except (ClientError, RemotingError) as error:
            log.warning("send_back_failed message=%s reason=%s", message, error)
            return await self.resend(message, delay_level)
        self._note(message)
        return True

    async def resend(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """As an ordinary message to the retry topic; any broker may take it."""
        topic = retry_topic(self._group)
        properties = dict(message.properties)
        properties.pop(names.TRANSACTION_PREPARED, None)
        properties.setdefault(names.RETRY_TOPIC, self._client.wrap(message.topic))
        properties.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_message_id)
        level = delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
        properties[names.DELAY] = str(level)
        # A message for the dead has used up its attempts.
        times = message.reconsume_times + 1 if delay_level >= 0 else self._reconsume_max + 1
        try:
            queues = (await self._client.publish_queues(topic)).queues
            queue = queues[message.queue_offset % len(queues)]
            address = await self._client.broker_address(queue.broker_name)
            fields = {
                "a": INNER_PRODUCER_GROUP,
                "b": topic,
                "c": DEFAULT_TOPIC,
                "d": "1",
                "e": str(queue.queue_id),
                "f": str(message.system_flag & ~0xC),
                "g": str(time.time_ns() // 1_000_000),
                "h": str(message.flag),
                "i": format_properties(properties),
                "j": str(times),
                "k": "false",
                "l": str(self._reconsume_max),
                "m": "false",
                "n": queue.broker_name,
            }
            request = new_request(RequestCode.SEND_MESSAGE_V2, fields, message.stored_body)
            answer = await self._client.connections.call(address, request, SEND_BACK_TIMEOUT_S)
        except (ClientError, RemotingError, ZeroDivisionError) as error:
            log.warning("resend_failed message=%s reason=%s", message, error)
            return False
        is_stored = is_result(answer.code)
        if is_stored:
            self._note(message)
        return is_stored

    def _note(self, message: ReceivedMessage) -> None:
        if self._client.measures is not None:
            unwrap = self._client.unwrap
            self._client.measures.given_back(unwrap(self._group), unwrap(message.topic))

    async def _send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        header = ConsumerSendMessageBack(
            commit_log_offset=message.log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_message_id=message.message_id,
            origin_topic=self._client.wrap(message.topic),
            max_reconsume_times=self._reconsume_max,
            target_broker_name=message.queue.broker_name,
        )
        await self._client.call_broker(
            message.queue.broker_name, header, timeout_s=SEND_BACK_TIMEOUT_S, is_vip=True
        )
