"""Life between a start and an end, on a thread that has a loop."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from emberq.client.aio import life as aio_life
from emberq.client.blocking.at_hand import AtHand
from emberq.client.blocking.loop_thread import LoopThread

if TYPE_CHECKING:
    from emberq.client.blocking.client import Client


class Life:
    """Used as `with`; what could not start is closed too."""

    aio: Any  # an aio_life.Life; each kind says which
    _thread: LoopThread

    def start(self) -> None:
        """Begin; a second call does nothing. Raises NoNameServer, ConfigError, ClientError."""
        self._thread.run(self._life.start())

    def close(self) -> None:
        """Finish what is under way, commit what was consumed, and leave."""
        self._thread.run(self._life.close())
        self._ended()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.run(self._life.__aexit__(kind, error, trace))
        self._ended()

    @property
    def _life(self) -> aio_life.Life:
        life = self.aio
        assert isinstance(life, aio_life.Life)
        return life

    def _ended(self) -> None:
        """The asyncio object is closed."""


class Part(AtHand, Life):
    """A producer or a consumer, on a client that it was given or that is its own."""

    aio: Any

    def __init__(self, client: "Client", *, is_client_ours: bool) -> None:
        self.client = client
        self._is_client_ours = is_client_ours
        self._thread = client.thread

    def _ended(self) -> None:
        if self._is_client_ours:
            self.client.close()
