"""The ledger of half messages agrees with plain sets, whatever happens in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from emberq.broker.transactions.half_ledger import HalfLedger, HalfState
from emberq.broker.transactions.operations import encode_operations, parse_operations

PLACES = st.integers(0, 40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("stored"), PLACES),
        st.tuples(st.sampled_from(["ended", "parked", "copied"]), PLACES),
        st.tuples(st.just("advance"), st.just(0)),
    )
)


@given(first=st.integers(0, 5), steps=STEPS)
def test_what_is_open_is_what_nobody_settled(first: int, steps: list[tuple[str, int]]) -> None:
    ledger = HalfLedger(first)
    end, settled = first, set[int]()
    for what, place in steps:
        offset = first + place
        if what == "stored":
            ledger.stored(offset)
            end = max(end, offset + 1)
        elif what == "advance":
            ledger.advance()
        elif offset < end and offset not in settled:
            settled.add(offset)
            if what == "copied":
                ledger.copied(offset, end)
                end += 1
            else:
                state = HalfState.ENDED if what == "ended" else HalfState.PARKED
                ledger.settle(offset, state)

    still_open = [offset for offset in range(first, end) if offset not in settled]
    found, offset = [], ledger.next_open(first)
    while offset < ledger.end:
        found.append(offset)
        offset = ledger.next_open(offset + 1)
    assert found == still_open
    assert ledger.end == end
    assert ledger.advance() == (still_open[0] if still_open else end)


@given(offsets=st.lists(st.integers(0, 2**63 - 1)), size_max=st.integers(1, 100))
def test_operations_are_read_as_they_were_written(offsets: list[int], size_max: int) -> None:
    bodies = list(encode_operations(offsets, size_max))

    assert [each for body, _ in bodies for each in parse_operations(body)] == offsets
    assert all(highest == max(parse_operations(body)) for body, highest in bodies)
    assert all(len(body) <= size_max or body.count(b",") == 1 for body, _ in bodies)
