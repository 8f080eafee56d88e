"""What all jobs have in common: their options, which are the same in Python, YAML and commands.

A job is a class whose fields are its options. `Archive(topics="orders", path="lake").run()` in
Python, `job: archive` with `topics: orders` in a file, and `emberq spark archive --topics orders`
mean the same.
"""

import abc
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta, Struct

from emberq.config_file import nearest
from emberq.errors import ConfigError
from emberq.pipelines.file_values import option_value
from emberq.spark.environment import with_environment
from emberq.spark.option_table import CONNECTION, SOURCE
from emberq.spark.option_values import OptionTexts
from emberq.spark.options import ENDS, STARTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from emberq.spark.tracking import OffsetTracker

SECTIONS = ("target", "trigger", "options")  # of a YAML file: their members are options
# Spark's words for triggers, and the options that they are.
TRIGGERS: Mapping[str, Mapping[str, str]] = {"availableNow": {}, "continuous": {"every": "1ms"}}

# Options of Spark have their names in any case; here they have one each.
_SPELT = {option.name.lower(): option.name for option in (*CONNECTION, *SOURCE)}
_OF_CONNECTION = frozenset(option.name for option in CONNECTION)
_PARTITIONS = "archive.partitionBy"
_NO_NAMES = ","
LISTENER = "listener"  # of the source's commitOffsets: who runs the query commits
GROUP_OF_STREAMS = (
    "with every: a group whose offsets show the progress; without, one from whose offsets "
    "startingOffsets=group of the source begins, and which are not changed"
)

Say = Callable[[str], None]
AJob = TypeVar("AJob", bound="Job")


class SparkSettings(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where Spark runs, for jobs that start it themselves."""

    master: str = "local[*]"
    conf: dict[str, str] = msgspec.field(default_factory=dict)

    def under(self, master: str, conf: Mapping[str, str]) -> "SparkSettings":
        """With a master and a conf that win, where they say something."""
        return SparkSettings(master=master or self.master, conf={**self.conf, **conf})


class Job(Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Options that every job takes."""

    name: ClassVar[str]

    name_server: Annotated[
        str, Meta(description="name servers, host:port separated by `;`; else NAMESRV_ADDR")
    ] = ""
    source: Annotated[
        dict[str, str], Meta(description="further options of the Spark source, KEY=VALUE")
    ] = msgspec.field(default_factory=dict)
    spark: SparkSettings = msgspec.field(default_factory=SparkSettings)

    @abc.abstractmethod
    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> "Report":
        """Do it, and say how far it is; starts Spark unless it runs here or a session is given."""

    @abc.abstractmethod
    def plan(self, spark: "SparkSession | None" = None) -> "Report":
        """What `run` would do: nothing is written."""

    def source_options(self, **more: str) -> dict[str, str]:
        """Options of the source: the job's own, then what `source` says."""
        if _PARTITIONS in more and not more[_PARTITIONS].strip():
            # To the source an empty text is none, and partitions are as usual then.
            more[_PARTITIONS] = _NO_NAMES
        options = {name: text for name, text in more.items() if text}
        if self.name_server:
            options["nameServer"] = self.name_server
        own = {_SPELT.get(name.lower(), name): text for name, text in self.source.items()}
        for names in (STARTS, ENDS):
            if any(name in own for name in names):  # they exclude each other
                options = {name: text for name, text in options.items() if name not in names}
        return with_environment(options | own)

    def sink_options(self, topic: str = "") -> dict[str, str]:
        """Options of the sink: the same brokers, and where messages go that name no topic."""
        options = {n: text for n, text in self.source_options().items() if n in _OF_CONNECTION}
        return options | ({"topic": topic} if topic else {})

    def tracker(self, group: str) -> "OffsetTracker | None":
        """Who commits a group's offsets as batches are done; nobody without a group.

        The group is the one that the source has: `source` may name it, and who commits, as well.
        """
        options = self.source_options(consumerGroup=group, commitOffsets=LISTENER)
        if not options.get("consumerGroup") or options["commitOffsets"].lower() != LISTENER:
            return None
        from emberq.spark import offset_tracker  # noqa: PLC0415 - needs Spark

        return offset_tracker(options["consumerGroup"], metrics=None, **self.sink_options())

    def size_option(self, name: str, text: str) -> int:
        found = OptionTexts({name: text}, [name]).size(name)
        if found is None:
            raise ConfigError(f"{name} needs a value")
        return found


class Report(Struct, kw_only=True, rename="camel"):
    """What a job did: facts for people, and the same as JSON."""

    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    tables: "list[ReportTable]" = msgspec.field(default_factory=list)
    is_good: bool = True


class ReportTable(Struct, kw_only=True, rename="camel"):
    title: str
    columns: list[str]
    rows: list[list[Any]]


def read_job(kind: type[AJob], options: Mapping[str, Any]) -> AJob:
    """A job from texts of a command line, or values of a YAML file. Raises ConfigError."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in options:
        if name not in known:
            raise unknown(f"{kind.name} has no option {name!r}", str(name), known)
    values = {
        name: option_value(known[name].type, name, value)
        for name, value in options.items()
        if value is not None
    }
    missing = [name for name, field in known.items() if field.required and not values.get(name)]
    if missing:
        raise ConfigError(f"{kind.name} needs {', '.join(missing)}")
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{kind.name}: {error}") from None


def unknown(text: str, name: str, known: Iterable[str]) -> ConfigError:
    """An error that names the nearest of the known names, or all of them."""
    near = nearest(name, known)
    return ConfigError(f"{text}: " + (f"did you mean {near}?" if near else ", ".join(known)))


def flatten(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a YAML file, out of the sections they stand in. Raises ConfigError."""
    options: dict[str, Any] = {}
    for name, value in sections.items():
        if name == "trigger":
            options |= _trigger(value)
        elif name not in SECTIONS:
            options[name] = value
        elif isinstance(value, Mapping):
            options |= value
        else:
            raise ConfigError(f"{name}: expected options, not {value!r}")
    return options


def _trigger(value: Any) -> dict[str, Any]:
    """`{every: 30s}`, or one of Spark's words: `availableNow`, `{availableNow: true}`."""
    if isinstance(value, str) and value in TRIGGERS:
        value = {value: True}
    if not isinstance(value, Mapping):
        expected = f"{{every: 30s}}, {' or '.join(TRIGGERS)}"
        raise ConfigError(f"trigger: expected {expected}, not {value!r}")
    options = {name: each for name, each in value.items() if name not in TRIGGERS}
    words = [name for name in TRIGGERS if name in value]
    for word in words:
        if value[word] is not True:
            raise ConfigError(f"trigger: {word} is true or left out, not {value[word]!r}")
    given = [*words, *(["every"] if "every" in options else [])]
    if len(given) > 1:
        raise ConfigError(f"trigger: {' and '.join(given)} exclude each other")
    return {**options, **(TRIGGERS[words[0]] if words else {})}
