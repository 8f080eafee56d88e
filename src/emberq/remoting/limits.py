"""Every bound of the network layer, by name and with its unit."""

from msgspec import Struct

from emberq.protocol.frame import FRAME_SIZE_MAX_BYTES

MIB = 1024 * 1024


class RemotingLimits(Struct, frozen=True, kw_only=True):
    """What one peer, or all of them together, may cost. The official default where it has one."""

    frame_size_max_bytes: int = FRAME_SIZE_MAX_BYTES
    connections_max: int = 50_000
    backlog: int = 1024

    # Calls of ours that wait for an answer, per connection.
    pending_calls_max: int = 65_535
    # Requests of others whose handlers have not finished, per server and per connection.
    requests_in_flight_max: int = 20_000
    requests_in_flight_per_connection_max: int = 4_096

    # Fairness on one loop: after this much work a connection waits for its next turn.
    work_per_turn_max_bytes: int = 64 * 1024
    work_per_turn_max_ms: float = 2.0
    # While some wait, those who speak have a few requests served at once and the rest in turn.
    crowded_work_max_bytes: int = 4 * 1024
    crowded_work_max_ms: float = 0.25
    # Those who wait are served this long, then the loop looks for new input.
    backlog_per_turn_max_ms: float = 10.0

    # A peer that does not read: we stop serving it above the high mark, go on below the low one,
    # and hang up when it has not caught up in time.
    write_buffer_high_bytes: int = 4 * MIB
    write_buffer_low_bytes: int = 1 * MIB
    write_buffer_max_bytes: int = 64 * MIB
    write_stall_max_s: float = 60.0

    # A peer that begins a frame and does not finish it.
    partial_frame_max_s: float = 60.0
    partial_frames_total_max_bytes: int = 256 * MIB

    idle_max_s: float = 120.0
    # From accept to the first byte of a frame: PROXY line and TLS handshake.
    preface_max_s: float = 10.0
    connect_timeout_s: float = 3.0
    # How long a stop waits for requests in flight and for answers to leave.
    stop_grace_s: float = 5.0

    def __post_init__(self) -> None:
        low, high = self.write_buffer_low_bytes, self.write_buffer_high_bytes
        if not 0 <= low <= high <= self.write_buffer_max_bytes:
            raise ValueError(f"write buffer marks out of order: low {low}, high {high}")
