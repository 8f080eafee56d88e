"""Who carries a committed batch out says so in the ledger again and again, so that nobody else
begins with it meanwhile."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from emberq.errors import EmberqError
from emberq.spark.batch_ledger import CommitDecision
from emberq.spark.ledger_topic import LedgerTopic

log = logging.getLogger(__name__)

# Signs in the time of a lease: one that is late or lost is none too few.
SIGNS_PER_LEASE = 4


class LeaseLost(Exception):
    """Somebody else may be carrying the batch out."""


class BatchLease:
    def __init__(
        self,
        ledger: LedgerTopic,
        batch_key: str,
        commit: CommitDecision,
        *,
        lease_s: float,
        signed_at_s: float,
    ) -> None:
        """The last sign so far is no older than `signed_at_s`, of the monotonic clock."""
        self._ledger = ledger
        self._batch_key = batch_key
        self._commit = commit
        self._lease_s = lease_s
        self._signed_at_s = signed_at_s
        self._is_lost = False

    @property
    def is_over(self) -> bool:
        """Whether somebody else may have begun: this process, or the ledger, stood still."""
        return self._is_lost or time.monotonic() - self._signed_at_s >= self._lease_s

    def check(self) -> None:
        """Raises LeaseLost."""
        if self.is_over:
            raise LeaseLost

    async def sign(self, parts_done: int) -> None:
        """When all is visible the batch has not failed because that is not written down: who is
        asked about it looks up what was ended."""
        began_s = time.monotonic()
        try:
            await self._ledger.note_done(self._batch_key, self._commit, parts_done)
        except EmberqError as error:
            if parts_done < self._commit.parts:
                raise
            log.warning("end_not_noted batch=%s reason=%s", self._batch_key, error)
        self._is_lost = self.is_over  # a sign that comes too late brings nothing back
        self._signed_at_s = began_s

    @asynccontextmanager
    async def kept(self, parts_done: int) -> AsyncIterator[None]:
        """Sign while a part is carried out."""
        keeping = asyncio.create_task(self._keep(parts_done))
        try:
            yield
        finally:
            keeping.cancel()

    async def _keep(self, parts_done: int) -> None:
        while True:
            await asyncio.sleep(self._lease_s / SIGNS_PER_LEASE)
            if self.is_over:
                return
            try:
                await self.sign(parts_done)
            except EmberqError as error:  # the next one may be in time
                log.warning("lease_not_kept batch=%s reason=%s", self._batch_key, error)
