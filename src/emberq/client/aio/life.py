"""Life between a start and an end, as a block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Life(ABC):
    """Used as `async with`; what could not start is closed too."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
