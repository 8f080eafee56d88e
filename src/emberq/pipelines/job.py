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
from emberq.spark.option_table import CONNECTION
from emberq.spark.option_values import OptionTexts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from emberq.spark.tracking import OffsetTracker

SECTIONS = ("target", "trigger", "options")  # of a YAML file: their members are options

Say = Callable[[str], None]
AJob = TypeVar("AJob", bound="Job")


class SparkSettings(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where Spark runs, for jobs that start it themselves."""

    master: str = "local[*]"
    conf: dict[str, str] = msgspec.field(default_factory=dict)


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
        """Do it, and say how far it is; starts Spark unless one is given."""

    @abc.abstractmethod
    def plan(self, spark: "SparkSession | None" = None) -> "Report":
        """What `run` would do: nothing is written."""

    def source_options(self, **more: str) -> dict[str, str]:
        """Options of the source: the job's own, then what `source` says."""
        options = {name: text for name, text in more.items() if text}
        if self.name_server:
            options["nameServer"] = self.name_server
        return options | self.source

    def sink_options(self, topic: str = "") -> dict[str, str]:
        """Options of the sink: the same brokers, and where messages go that name no topic."""
        connection = {option.name for option in CONNECTION}
        options = {n: text for n, text in self.source_options().items() if n in connection}
        return options | ({"topic": topic} if topic else {})

    def tracker(self, group: str) -> "OffsetTracker | None":
        """Who commits a group's offsets as batches are done; nobody without a group."""
        if not group:
            return None
        from emberq.spark import offset_tracker  # noqa: PLC0415 - needs Spark

        return offset_tracker(group, **self.sink_options())

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
    """A job from texts: of a command line or a YAML file. Raises ConfigError."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in options:
        if name not in known:
            raise unknown(f"{kind.name} has no option {name!r}", name, known)
    missing = [
        name for name, field in known.items() if field.required and options.get(name) in (None, "")
    ]
    if missing:
        raise ConfigError(f"{kind.name} needs {', '.join(missing)}")
    try:
        return msgspec.convert(dict(options), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{kind.name}: {error}") from None


def unknown(text: str, name: str, known: Iterable[str]) -> ConfigError:
    """An error that names the nearest of the known names, or all of them."""
    near = nearest(name, known)
    return ConfigError(f"{text}: " + (f"did you mean {near}?" if near else ", ".join(known)))


def flatten(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a YAML file, out of the sections they stand in."""
    options: dict[str, Any] = {}
    for name, value in sections.items():
        if name not in SECTIONS:
            options[name] = value
            continue
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name}: expected options, not {value!r}")
        options |= value
    return options
