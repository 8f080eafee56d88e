"""What is measured: sizes, shapes and durations, in full and as a quick look."""

from msgspec import Struct

from benchmarks.load import REGISTERING_BROKERS, Kind, Measurement

TOPIC_COUNTS = (10, 1_000, 10_000)
# Connections × requests in flight on each.
SHAPES = ((1, 1), (8, 1), (8, 16), (64, 1))


class Plan(Struct, frozen=True, kw_only=True):
    lookup_rounds: int
    lookup_s: float
    registration_s: float
    echo_s: float
    warm_up_s: float  # before each measurement
    compile_s: float  # once per server, so that Java's compilers are done
    starts: int
    official_starts: int

    def lookups(self, topic_count: int) -> list[Measurement]:
        measurements = [
            self._measurement(Kind.LOOKUP, shape, topic_count, self.lookup_s) for shape in SHAPES
        ]
        # The last one, because its broker leaves when it ends.
        beside = Kind.LOOKUP_BESIDE_REGISTRATIONS
        return [*measurements, self._measurement(beside, (1, 1), topic_count, self.lookup_s)]

    def registrations(self, topic_count: int) -> list[Measurement]:
        shape = (REGISTERING_BROKERS, 1)
        return [
            self._measurement(kind, shape, topic_count, self.registration_s)
            for kind in (Kind.REGISTER_SAME, Kind.REGISTER_CHANGED)
        ]

    def remoting(self, kind: Kind) -> list[Measurement]:
        return [self._measurement(kind, shape, 0, self.echo_s) for shape in SHAPES]

    def compiling(self) -> list[Measurement]:
        topic_count = TOPIC_COUNTS[0]
        return [
            self._measurement(Kind.LOOKUP, shape, topic_count, self.compile_s / len(SHAPES))
            for shape in SHAPES
        ]

    def _measurement(
        self, kind: Kind, shape: tuple[int, int], topic_count: int, duration_s: float
    ) -> Measurement:
        connections, in_flight = shape
        return Measurement(
            kind=kind,
            connections=connections,
            in_flight=in_flight,
            topic_count=topic_count,
            warm_up_s=self.warm_up_s,
            duration_s=duration_s,
        )


FULL = Plan(
    lookup_rounds=3,
    lookup_s=1.0,
    registration_s=1.5,
    echo_s=0.8,
    warm_up_s=0.3,
    compile_s=12.0,
    starts=7,
    official_starts=1,
)
QUICK = Plan(
    lookup_rounds=1,
    lookup_s=0.5,
    registration_s=0.5,
    echo_s=0.4,
    warm_up_s=0.1,
    compile_s=4.0,
    starts=2,
    official_starts=1,
)
