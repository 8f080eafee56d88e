"""Tables that official slaves and tools copy (43, 45), and how replication goes (907, 1007)."""

from collections.abc import Callable

from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.ha import HaStatus
from emberq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry


class SlaveSyncHandlers:
    def __init__(
        self,
        *,
        consumer_offsets: Callable[[], ConsumerOffsetTable],
        delay_offsets: Callable[[], DelayOffsetTable],
        log_end: Callable[[], int],
    ) -> None:
        self._consumer_offsets = consumer_offsets
        self._delay_offsets = delay_offsets
        self._log_end = log_end

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.GET_ALL_CONSUMER_OFFSET, self.get_consumer_offsets)
        registry.add(RequestCode.GET_ALL_DELAY_OFFSET, self.get_delay_offsets)
        registry.add(RequestCode.GET_BROKER_HA_STATUS, self.get_ha_status)
        registry.add(RequestCode.GET_BROKER_EPOCH_CACHE, self.get_epochs)

    def get_consumer_offsets(self, command: Command, _: Connection) -> Command:
        return answer(command, body=encode_body(self._consumer_offsets()))

    def get_delay_offsets(self, command: Command, _: Connection) -> Command:
        return answer(command, body=encode_body(self._delay_offsets()))

    def get_ha_status(self, command: Command, _: Connection) -> Command:
        """A master without slaves: there is no replication yet."""
        status = HaStatus(is_master=True, master_offset_max=self._log_end())
        return answer(command, body=encode_body(status))

    def get_epochs(self, command: Command, _: Connection) -> Command:
        """Terms of masters that a controller elected; there is none."""
        remark = "this request only for controllerMode "
        return answer(command, ResponseCode.SYSTEM_ERROR, remark)
