"""All jobs by name, and jobs from YAML files."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from emberq.errors import ConfigError
from emberq.pipelines.job import Job, flatten, read_job, unknown

# Name → module:class, loaded on use: listing jobs needs neither Spark nor Arrow.
JOBS: Mapping[str, str] = {
    "archive": "emberq.pipelines.archive:Archive",
    "compact": "emberq.pipelines.compact:Compact",
    "replay": "emberq.pipelines.replay:Replay",
    "transform": "emberq.pipelines.transform:Transform",
    "stats": "emberq.pipelines.stats:Stats",
    "dlq": "emberq.pipelines.dead_letters:DeadLetters",
    "trace": "emberq.pipelines.trace:Trace",
    "lag": "emberq.pipelines.lag:Lag",
    "verify": "emberq.pipelines.verify:Verify",
}

_GROUP = "consumerGroup"


def job_class(name: str) -> type[Job]:
    """Raises ConfigError for a name that there is not."""
    place = JOBS.get(name)
    if place is None:
        raise unknown(f"there is no job {name!r}", name, JOBS)
    module_name, attribute = place.split(":")
    found: type[Job] = getattr(import_module(module_name), attribute)
    return found


def read_job_file(path: Path, overrides: Mapping[str, Any] | None = None) -> Job:
    """A job from a YAML file; overrides win over what it says. Raises ConfigError."""
    import yaml  # noqa: PLC0415 - comes with the extra

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is no YAML: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("job"), str):
        raise ConfigError(f"{path}: expected `job: NAME` and its options")
    kind = job_class(document["job"])
    options = flatten({name: value for name, value in document.items() if name != "job"})
    source = options.get("source")
    if isinstance(source, dict):
        options |= _lifted(kind, options, source)
    return read_job(kind, {**options, **(overrides or {})})


# Options of the source, in small letters, that are options of jobs as well.
_LIFTED = {"nameserver": "nameServer", "subscribe": "topics", _GROUP.lower(): _GROUP}


def _lifted(
    kind: type[Job], options: Mapping[str, Any], source: Mapping[Any, Any]
) -> dict[str, Any]:
    """`source: {subscribe: orders}` means `topics: orders`, as people know it from Spark. A group
    stays with the source of a job that commits no offsets, so that jobs may share a section."""
    has_group = any(field.encode_name == _GROUP for field in msgspec.structs.fields(kind))
    lifted: dict[str, Any] = {}
    kept: dict[Any, Any] = {}
    for name, value in source.items():
        own = _LIFTED.get(str(name).lower())
        if own is None or (own == _GROUP and not has_group):
            kept[name] = value
        else:
            lifted[own] = value
    return {**lifted, **{name: options[name] for name in lifted if name in options}, "source": kept}
