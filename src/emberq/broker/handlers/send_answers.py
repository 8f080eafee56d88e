"""The answers to sends, as finished frames: a template where it fits, the generic way elsewhere."""

from struct import Struct as Layout

from emberq.kernel import joined_ids
from emberq.protocol.command import LANGUAGE, Command, HeaderEncoding, answer
from emberq.protocol.frame import encode_frame
from emberq.protocol.versions import CURRENT
from emberq.record.host import PackedHost
from emberq.record.property_names import MESSAGE_REGION, TRACE_ON

_PREFIX = Layout("!II")
_JSON = HeaderEncoding.JSON
_ID_SIZE = 16  # of an IPv4 broker: host and log offset


class SendAnswers:
    """Made once per configuration: region and trace switch are in every answer."""

    def __init__(self, store_host: PackedHost, region_id: str, is_trace_on: bool) -> None:
        self._id_host = store_host.hex().upper()
        self._packed_host = bytes(store_host)
        trace = "true" if is_trace_on else "false"
        # In refusals too, but not in answers to what cannot be understood.
        self.fields = {TRACE_ON: trace, MESSAGE_REGION: region_id}
        # The text between what differs. Only a region id without special characters goes by it.
        self._middle = f'","{TRACE_ON}":"{trace}","{MESSAGE_REGION}":"{region_id}","queueOffset":"'
        self._end = f'","serializeTypeCurrentRPC":"JSON","version":{CURRENT}}}'.removeprefix('"')
        self._after_offset = f'"}},"flag":1,"language":"{LANGUAGE}","opaque":'
        self._is_plain = region_id.isascii() and region_id.isidentifier()

    def stored(
        self,
        request: Command,
        code: int,
        queue_id: int,
        queue_offset: int,
        log_offset: int,
        unique_key: str,
        recall_handle: str | None = None,
    ) -> bytes:
        """The answer to a single message that is in the log."""
        is_plain = self._is_plain and recall_handle is None
        if is_plain and request.encoding is _JSON and unique_key.isalnum():
            header = (
                f'{{"code":{code},"extFields":{{"queueId":"{queue_id}",'
                f'"transactionId":"{unique_key}","msgId":"{self._id_host}{log_offset:016X}'
                f"{self._middle}{queue_offset}{self._after_offset}{request.opaque}{self._end}"
            ).encode()
            size = len(header)
            return _PREFIX.pack(4 + size, size) + header
        message_id = f"{self._id_host}{log_offset:016X}"
        return self._generic(
            request, code, queue_id, queue_offset, message_id, unique_key, recall_handle
        )

    def batch_stored(
        self,
        request: Command,
        code: int,
        queue_id: int,
        queue_offset: int,
        log_offsets: tuple[int, ...],
        unique_key: str | None,
    ) -> bytes:
        """The answer to a batch: the ids of all its messages."""
        ids = joined_ids(self._packed_host, log_offsets)
        is_plain_key = unique_key is None or unique_key.isalnum()
        if self._is_plain and request.encoding is _JSON and is_plain_key:
            transaction = "" if unique_key is None else f'"transactionId":"{unique_key}",'
            header = (
                f'{{"code":{code},"extFields":{{"queueId":"{queue_id}",{transaction}"msgId":"{ids}'
                f"{self._middle}{queue_offset}{self._after_offset}{request.opaque}{self._end}"
            ).encode()
            size = len(header)
            return _PREFIX.pack(4 + size, size) + header
        return self._generic(request, code, queue_id, queue_offset, ids, unique_key)

    def _generic(
        self,
        request: Command,
        code: int,
        queue_id: int,
        queue_offset: int,
        message_id: str,
        unique_key: str | None,
        recall_handle: str | None = None,
    ) -> bytes:
        fields = {"queueId": str(queue_id)}
        if recall_handle is not None:
            fields["recallHandle"] = recall_handle
        if unique_key is not None:
            fields["transactionId"] = unique_key
        fields |= {"msgId": message_id, **self.fields, "queueOffset": str(queue_offset)}
        return encode_frame(answer(request, code, None, fields))
