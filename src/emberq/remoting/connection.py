"""One connection: bytes from the transport become commands, commands become few writes.

Both sides of a conversation use this class. It knows no handler: requests go to the endpoint's
dispatcher, answers to the calls that wait for them.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from math import inf
from typing import Any, cast

from emberq.errors import (
    CallTimeout,
    ConfigError,
    ConnectionClosed,
    FrameTooLarge,
    ProtocolError,
    RecordError,
    TooManyPendingCalls,
)
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import ONEWAY_BIT, RESPONSE_BIT, Command, answer
from emberq.protocol.frame import FrameDecoder, encode_head, lone_command
from emberq.protocol.request_frame import FramedRequest
from emberq.record.host import UNKNOWN_HOST, PackedHost, pack_host
from emberq.remoting import proxy_protocol
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.hooks import tell_after
from emberq.remoting.large_bodies import LargeBodyReceiver
from emberq.remoting.pending_calls import PendingCalls, next_opaque
from emberq.remoting.registry import Answer, FrameParts
from emberq.remoting.tls import TlsMode
from emberq.remoting.tls_channel import TlsChannel

log = logging.getLogger(__name__)

_TLS_HANDSHAKE_BYTE = 0x16  # a plain frame begins with 0x00: frames are shorter than 16 MiB
# Above this, joining the parts of a write costs more than handing them over one by one.
_JOIN_MAX_BYTES = 256 * 1024
# Of an answer that lacks so much the rest is received in place, if somebody waits for it. Nothing
# else is: what a stranger announces is no reason to set memory aside.
_IN_PLACE_MIN_BYTES = 256 * 1024
# What a header costs against the work limit of a turn; bodies count with their size.
_HEADER_WORK_BYTES = 256

# What can be sent; where hooks look at requests it must be a Command.
Request = Command | FramedRequest
PendingCall = tuple["asyncio.Future[Command]", Request]


class Connection(asyncio.Protocol):
    """A peer, and everything that is under way with it."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        is_accepted: bool = True,
        client_tls: TlsChannel | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._limits = endpoint.limits
        self._work_max_s = endpoint.limits.work_per_turn_max_ms / 1000
        self._crowded_work_max_s = endpoint.limits.crowded_work_max_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._decoder = FrameDecoder(self._limits.frame_size_max_bytes)
        self._pending: PendingCalls[PendingCall] = PendingCalls(self._limits.pending_calls_max)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._transport: asyncio.Transport | None = None
        self._tls = client_tls
        self._is_accepted = is_accepted
        # The first bytes of an accepted connection, until they say what kind it is.
        self._preface: bytes | None = b"" if is_accepted else None
        self._is_proxied = False
        self._is_plain = False  # established, and without TLS
        self._outbox: FrameParts = []
        self._outbox_bytes = 0
        # Below this a finished frame needs no other check: neither a frame nor a turn is too long.
        self._corked_max_bytes = min(
            self._limits.frame_size_max_bytes, self._limits.write_buffer_high_bytes
        )
        self._is_corked = False
        self._is_flush_scheduled = False
        self._is_work_scheduled = False
        self._is_write_paused = False
        self._is_reading_paused = False
        self._is_input_held = False
        self._is_in_place = False  # a receiver of a large body has the transport
        self._is_stopping = False
        self._partial_bytes = 0
        self._received_at = self._partial_since = self._write_paused_since = 0.0
        self._opened_at = self._active_at = self._loop.time()
        self.requests_in_flight = 0
        # How long what is being served has waited in the kernel's buffers and in ours.
        self.waited_ms = 0.0
        self.peer = "?"
        self._packed_peer: PackedHost | None = None
        self.is_closed = False
        self.close_reason: str | None = None  # when it was us who hung up
        # For the owner of the handlers: what it knows about this peer.
        self.session: Any = None
        self.established: asyncio.Future[None] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    # What the transport tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Abandoned while it was being made, or accepted in the turn in which the server closed.
        if self.is_closed or self._endpoint.is_stopping:
            self._transport.abort()
            return
        self.peer = _address_text(transport.get_extra_info("peername"))
        connections = self._endpoint.connections
        if len(connections) >= self._limits.connections_max:
            log.warning("connection_refused peer=%s reason=limit n=%d", self.peer, len(connections))
            self.close_reason = f"the limit of {len(connections)} connections is reached"
            self._transport.abort()
            return
        connections.add(self)
        self._transport.set_write_buffer_limits(
            self._limits.write_buffer_high_bytes, self._limits.write_buffer_low_bytes
        )
        if self._tls is not None:
            self._tls.start()
            self._transport.write(self._tls.output())
        elif self._preface is None:
            self._establish()
        self._endpoint.on_open(self)

    def data_received(self, data: bytes) -> None:
        now = self._active_at = self._loop.time()
        lag_ms = self._endpoint.loop_lag_ms
        self._received_at = now - lag_ms / 1000
        if self._is_plain and not (
            self._is_work_scheduled or self._is_input_held or self._partial_bytes
        ):
            try:
                command = lone_command(data, self._limits.frame_size_max_bytes)
            except ProtocolError as error:
                self._hang_up(str(error))
                return
            if command is not None:  # nearly every read: nothing is left over, nothing is missing
                self._serve_alone(command, lag_ms)
                return
        self._take(data)

    def _take(self, data: bytes) -> None:
        """The long way of bytes, whatever they are."""
        try:
            if self._preface is not None:
                data = self._pass_preface(data)
            if self._tls is not None and data:
                data = self._decrypt(self._tls, data)
        except (ProtocolError, ConfigError) as error:
            self._hang_up(str(error))
            return
        if data:
            self._decoder.feed(data)
            if not self._is_work_scheduled:
                if self._endpoint.backlog:  # others wait: a few requests now, the rest in turn
                    self._work(self._limits.crowded_work_max_bytes, self._crowded_work_max_s)
                else:
                    self._work(self._limits.work_per_turn_max_bytes, self._work_max_s)
        if self._tls is not None and self._tls.is_finished:
            self.close()

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._write_paused_since = self._loop.time()
        # Who does not read our answers is not served. Only the accepting side may say so: if both
        # stopped reading until the other one reads, they would wait for each other.
        self._is_input_held = self._is_accepted

    def resume_writing(self) -> None:
        self._is_write_paused = self._is_input_held = False
        self._schedule_work()

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._outbox.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._drop_input()
        cause = error or self.close_reason
        reason = f"connection to {self.peer} closed" + (f": {cause}" if cause else "")
        for future, command in self._pending.take_all():
            self._fail_call(future, command, ConnectionClosed(reason))
        for waiter in (self.established, self.closed):
            if not waiter.done():
                waiter.set_result(None)
        if self in self._endpoint.connections:
            self._endpoint.connections.discard(self)
            self._endpoint.on_close(self)

    # What we tell the peer

    async def call(self, command: Request, timeout_s: float) -> Command:
        """Send a request and wait for its answer.

        Raises:
            CallTimeout, ConnectionClosed, TooManyPendingCalls, FrameTooLarge
        """
        future = self.start_call(command, timeout_s)
        try:
            return await future
        except asyncio.CancelledError:
            self.forget_call(command)
            raise

    def forget_call(self, command: Request) -> None:
        """Nobody waits for the answer any more."""
        if self._pending.take(command.opaque) is not None:
            self._tell_after(command, None)

    def start_call(self, command: Request, timeout_s: float) -> "asyncio.Future[Command]":
        """Send a request now; the future is its answer or the reason why there is none. Who stops
        waiting for it calls `forget_call`."""
        self._check_can_send()
        future: asyncio.Future[Command] = self._loop.create_future()
        deadline = self._loop.time() + timeout_s
        command.opaque = self._pending.add((future, command), deadline)
        try:
            if self._endpoint.hooks:
                self._tell_before(command)
            self._put(command)
        except BaseException:
            self._pending.take(command.opaque)
            raise
        if deadline < self._timer_at:
            self._set_timer(deadline)
        return future

    def send_oneway(self, command: Command) -> None:
        """Send a request that the peer does not answer."""
        self._check_can_send()
        command.flag |= ONEWAY_BIT
        command.opaque = next_opaque()
        self._tell_before(command)
        self._put(command)
        self._tell_after(command, None)

    def send_answer(self, request: Command, response: Command | bytes | FrameParts) -> None:
        """Answer a request of the peer; dropped when the peer is gone. A list is a frame in parts,
        which must stay as they are until they are written."""
        if self.is_closed:
            return
        if type(response) is bytes and (self._is_corked or not self._is_write_paused):
            size = self._outbox_bytes + len(response)
            if size <= self._corked_max_bytes:  # made to measure, and no cause to write at once
                self._outbox.append(response)
                self._outbox_bytes = size
                if not self._is_corked and not self._is_flush_scheduled:
                    self._is_flush_scheduled = True
                    self._endpoint.write_turn.add(self)
                return
        if self._is_write_paused and self._unsent_bytes() > self._limits.write_buffer_max_bytes:
            self._drop_unread()
            return
        if not isinstance(response, Command):
            size = sum(map(len, response)) if isinstance(response, list) else len(response)
            if size <= self._limits.frame_size_max_bytes:
                if isinstance(response, list):
                    self._outbox += response
                else:
                    self._outbox.append(response)
                self._note_output(size)
                return
            remark = f"the answer is no frame: frame of {size} bytes"
            response = answer(request, ResponseCode.SYSTEM_ERROR, remark)
        try:
            self._put(response)
        except Exception as error:  # whatever a handler put into its answer, the peer gets one
            log.warning("answer_refused peer=%s code=%d reason=%r", self.peer, request.code, error)
            self._put(
                answer(request, ResponseCode.SYSTEM_ERROR, f"the answer is no frame: {error}")
            )

    def answer(self, request: Command, result: Command | bytes | FrameParts) -> None:
        """Answer a request whose handler had no answer when it was called."""
        self._endpoint.dispatcher.reply(request, self, result)

    def answer_with(self, request: Command, make: Callable[[], Answer]) -> None:
        """The same with what `make` returns; its failures become codes."""
        self._endpoint.dispatcher.answer_with(request, self, make)

    def close(self) -> None:
        """Write what is waiting, then close."""
        if self._transport is None or self._transport.is_closing():
            return
        self._drop_input()
        self.flush()
        if self._tls is not None:
            self._tls.say_goodbye()
            self._transport.write(self._tls.output())
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is waiting is lost."""
        self._drop_input()
        if self._transport is not None:
            self._transport.abort()

    def abandon(self) -> None:
        """Abort while it is being made: of that end uvloop tells nobody."""
        self.abort()
        self._loop.call_soon(self.connection_lost, None)

    # Life cycle, called by the server

    def stop_reading(self) -> None:
        """Take no new bytes; requests that are here already are still answered."""
        self._is_stopping = True
        self._pause_reading()

    @property
    def packed_peer(self) -> PackedHost:
        """The peer's address as records hold it; of what is no internet address, zeros."""
        packed = self._packed_peer
        if packed is None:
            packed = self._packed_peer = _packed(self.peer)
        return packed

    def heard_since(self, moment: float) -> bool:
        """Whether the peer has said anything since then, by the loop's clock."""
        return self._received_at >= moment

    @property
    def is_busy(self) -> bool:
        """Has requests or answers on the way that a graceful stop should wait for."""
        return not self.is_closed and (
            self.requests_in_flight > 0
            or self._is_work_scheduled
            or (self.established.done() and self._unsent_bytes() > 0)
        )

    def overdue_reason(self, now: float) -> str | None:
        """Why this connection should be closed, if it should."""
        limits = self._limits
        if self._preface or (self._tls is not None and not self.established.done()):
            return "no_handshake" if now - self._opened_at > limits.preface_max_s else None
        if self._is_write_paused and now - self._write_paused_since > limits.write_stall_max_s:
            return "peer_does_not_read"
        if self._partial_bytes and now - self._partial_since > limits.partial_frame_max_s:
            return "unfinished_frame"
        if self.requests_in_flight == 0 and now - self._active_at > limits.idle_max_s:
            return "idle"
        return None

    # Bytes in

    def _pass_preface(self, data: bytes) -> bytes:
        """Decide what kind of connection this is; returns what belongs to its own protocol."""
        data = (self._preface or b"") + data
        # A second PROXY header would be the peer's own, claiming an address it does not have.
        if not self._is_proxied and proxy_protocol.may_begin(data):
            header = proxy_protocol.parse(data)
            if header is None:
                self._preface = data
                return b""
            self._is_proxied = True
            if header.source is not None:
                self.peer = _address_text(header.source)
            data = data[header.size :]
            if not data:
                self._preface = b""
                return b""
        self._preface = None
        tls = self._endpoint.tls
        mode = TlsMode.DISABLED if tls is None else tls.mode
        if data[0] == _TLS_HANDSHAKE_BYTE:
            if tls is None or mode is TlsMode.DISABLED:
                raise ProtocolError("TLS is disabled here")
            self._tls = TlsChannel(tls.context(), server_side=True)
        elif mode is TlsMode.ENFORCING:
            raise ProtocolError("only TLS is accepted here")
        else:
            self._establish()
        return data

    def _decrypt(self, tls: TlsChannel, data: bytes) -> bytes:
        try:
            plain = tls.receive(data)
        finally:
            output = tls.output()
            if output and self._transport is not None:
                self._transport.write(output)
        if tls.is_established:
            self._establish()
        return plain

    def _establish(self) -> None:
        """Who writes how is settled: what was sent too early may leave."""
        if not self.established.done():
            self.established.set_result(None)
            self._is_plain = self._tls is None
            self.flush()

    def _serve_alone(self, command: Command, waited_ms: float) -> None:
        """Serve the only command of a read."""
        self._is_corked = True
        self.waited_ms = waited_ms
        try:
            if command.flag & RESPONSE_BIT:
                self._take_answer(command)
            else:
                self._endpoint.dispatcher.serve(command, self)
        finally:
            self._is_corked = False
        if self._outbox and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            if not self._endpoint.write_turn.join(self):
                self.flush()

    def _work(self, allowance: int, work_max_s: float) -> None:
        """Serve commands until there are none, or until others should have their turn."""
        self._is_corked = True
        self.waited_ms = (self._loop.time() - self._received_at) * 1000
        deadline = time.perf_counter() + work_max_s
        serve = self._endpoint.dispatcher.serve
        try:
            while not self._is_input_held:
                command = self._decoder.next()
                if command is None:
                    size = self._decoder.partial_size
                    if size or self._partial_bytes:
                        self._note_partial_frame(size)
                    if self._is_reading_paused and not self._is_stopping:
                        self._resume_reading()
                    if size and self._is_plain and not self._is_accepted:
                        self._receive_in_place()
                    break
                if self._partial_bytes:
                    self._count_partial_bytes(0)
                if command.flag & RESPONSE_BIT:
                    self._take_answer(command)
                else:
                    serve(command, self)
                allowance -= _HEADER_WORK_BYTES + len(command.body)
                if allowance < 0 or time.perf_counter() > deadline:
                    self._pause_reading()
                    self._schedule_work()
                    break
            else:
                self._pause_reading()  # until resume_writing
        except ProtocolError as error:
            self._hang_up(str(error))
        finally:
            self._is_corked = False
        self.flush()

    def _receive_in_place(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self._is_reading_paused:
            return
        body = self._decoder.take_large(_IN_PLACE_MIN_BYTES, self._pending.__contains__)
        if body is not None:
            self._is_in_place = True
            LargeBodyReceiver(self, transport, body, self._note_in_place).take_over()

    def _note_in_place(self, size: int, command: Command | None) -> None:
        self._received_at = self._active_at = self._loop.time()
        if command is not None:
            self._is_in_place = False
            self._count_partial_bytes(0)
            self._serve_alone(command, 0.0)
            return
        try:
            self._note_partial_frame(size)
        except ProtocolError as error:
            self._hang_up(str(error))

    def _schedule_work(self) -> None:
        if not (self._is_work_scheduled or self.is_closed or self._is_in_place):
            self._is_work_scheduled = True
            self._endpoint.backlog.add(self._work_in_turn)

    def _work_in_turn(self) -> None:
        self._is_work_scheduled = False
        if not self.is_closed:
            self._work(self._limits.work_per_turn_max_bytes, self._work_max_s)

    def _note_partial_frame(self, size: int) -> None:
        if size and not self._partial_bytes:
            self._partial_since = self._received_at
        self._count_partial_bytes(size)
        total = self._endpoint.partial_frames_bytes
        if size and total > self._limits.partial_frames_total_max_bytes:
            raise FrameTooLarge(f"{total} bytes in unfinished frames")

    def _count_partial_bytes(self, size: int) -> None:
        self._endpoint.partial_frames_bytes += size - self._partial_bytes
        self._partial_bytes = size

    def _drop_input(self) -> None:
        """What was read and not served yet will not be."""
        self._decoder = FrameDecoder(self._limits.frame_size_max_bytes)
        self._count_partial_bytes(0)

    def _take_answer(self, answer: Command) -> None:
        entry = self._pending.take(answer.opaque)
        if entry is None:
            log.debug("late_answer peer=%s opaque=%d", self.peer, answer.opaque)
            return
        future, request = entry
        if self._endpoint.hooks:
            self._tell_after(request, answer)
        if not future.done():
            future.set_result(answer)

    def _fail_call(
        self, future: "asyncio.Future[Command]", request: Request, error: Exception
    ) -> None:
        self._tell_after(request, None)
        if not future.done():
            future.set_exception(error)

    def _tell_before(self, request: Request) -> None:
        for hook in self._endpoint.hooks:
            assert isinstance(request, Command)
            hook.before(self.peer, request)

    def _tell_after(self, request: Request, answer: Command | None) -> None:
        if self._endpoint.hooks:
            assert isinstance(request, Command)
            tell_after(self._endpoint.hooks, self.peer, request, answer)

    def _hang_up(self, reason: str) -> None:
        log.warning("connection_dropped peer=%s reason=%s", self.peer, reason)
        self.close_reason = reason
        self._drop_input()
        self.flush()  # answers to what came before the damage still leave
        if self._transport is not None:
            self._transport.close()

    # Bytes out

    def _check_can_send(self) -> None:
        if self.is_closed or self._transport is None or self._transport.is_closing():
            raise ConnectionClosed(f"connection to {self.peer} is closed")
        if self._is_write_paused and self._unsent_bytes() > self._limits.write_buffer_max_bytes:
            raise TooManyPendingCalls(f"{self.peer} does not read what is sent to it")

    def _put(self, command: Request) -> None:
        head = command.head() if type(command) is FramedRequest else encode_head(command)
        body = command.body
        size = len(head) + len(body)
        if size > self._limits.frame_size_max_bytes:
            raise FrameTooLarge(f"frame of {size} bytes")
        self._outbox.append(head)
        if body:
            self._outbox.append(body)
        if self._is_flush_scheduled and self._outbox_bytes + size <= self._corked_max_bytes:
            self._outbox_bytes += size  # not the first of this turn
        else:
            self._note_output(size)

    def _note_output(self, size: int) -> None:
        """Bytes were added to the outbox: have them written in time."""
        self._outbox_bytes += size
        if self._outbox_bytes > self._limits.write_buffer_high_bytes:
            self.flush()  # a turn that makes large answers notices a peer that does not read
        elif not self._is_corked and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._endpoint.write_turn.add(self)

    def flush(self) -> None:
        """Write what is waiting, in one piece."""
        self._is_flush_scheduled = False
        if not self._is_plain and not self.established.done():
            return  # plain bytes would spoil a TLS handshake that may still come
        outbox, transport = self._outbox, self._transport
        self._outbox = []
        if not outbox or transport is None or transport.is_closing():
            self._outbox_bytes = 0
            return
        if self._tls is not None:
            self._write_encrypted(self._tls, transport, b"".join(outbox))
        elif len(outbox) == 1:
            transport.write(outbox[0])
        elif self._outbox_bytes <= _JOIN_MAX_BYTES:
            transport.write(b"".join(outbox))
        else:
            transport.writelines(outbox)
        self._outbox_bytes = 0
        self._active_at = self._loop.time()

    def _drop_unread(self) -> None:
        log.warning("connection_dropped peer=%s reason=peer_does_not_read", self.peer)
        self.close_reason = "the peer does not read"
        self.abort()

    def _write_encrypted(self, tls: TlsChannel, transport: asyncio.Transport, plain: bytes) -> None:
        try:
            tls.send(plain)
        except ProtocolError as error:
            self.close_reason = str(error)
            transport.abort()
        else:
            transport.write(tls.output())

    def _unsent_bytes(self) -> int:
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._outbox_bytes + waiting

    def _pause_reading(self) -> None:
        self._is_reading_paused = True
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._is_reading_paused = False
        transport = self._transport
        if transport is not None and not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()

    # Deadlines of calls: one timer per connection, set for the earliest

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire_calls)
        self._timer_at = deadline

    def _expire_calls(self) -> None:
        self._timer, self._timer_at = None, inf
        for future, command in self._pending.take_expired(self._loop.time()):
            error = CallTimeout(f"no answer from {self.peer} to request {command.code} in time")
            self._fail_call(future, command, error)
        deadline = self._pending.next_deadline()
        if deadline is not None:
            self._set_timer(deadline)


def _packed(peer: str) -> PackedHost:
    ip, _, port = peer.rpartition(":")
    try:
        return pack_host(ip.strip("[]").partition("%")[0], int(port))
    except (RecordError, ValueError):
        return UNKNOWN_HOST


def _address_text(address: Any) -> str:
    """`host:port` as the peers write it; a path for what has no port."""
    if isinstance(address, tuple) and len(address) >= 2:
        host, port = address[0], address[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(address)
