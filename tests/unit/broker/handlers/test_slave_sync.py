from emberq.broker.handlers.slave_sync import SlaveSyncHandlers
from emberq.model.data_version import DataVersion
from emberq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask


async def body_of(code: int) -> bytes:
    registry = HandlerRegistry()
    SlaveSyncHandlers(
        consumer_offsets=lambda: ConsumerOffsetTable(
            data_version=DataVersion(), offsets={"T@G": {0: 5}}, topics_by_group={"G": ["T"]}
        ),
        delay_offsets=lambda: DelayOffsetTable(data_version=DataVersion(), offsets={3: 7}),
        log_end=lambda: 2432,
    ).add_to(registry)
    return (await ask(registry, Peer(), code)).body


async def test_offsets_are_copied_in_the_dialect() -> None:
    version = b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},'
    assert (
        await body_of(43) == version + b'"groupTopicMap":{"G":["T"]},"offsetTable":{"T@G":{0:5}}}'
    )
    assert await body_of(45) == version + b'"offsetTable":{3:7}}'


async def test_a_master_without_slaves_says_so() -> None:
    assert await body_of(907) == (
        b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,'
        b'"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},'
        b'"haConnectionInfo":[],"inSyncSlaveNums":0,"master":true,'
        b'"masterCommitLogMaxOffset":2432}'
    )
