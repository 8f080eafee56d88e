"""The reference of all jobs as Markdown, made from their classes: docs/reference/spark-jobs.md."""

import inspect
from typing import Any, get_args

import msgspec

from emberq.pipelines.catalogue import JOBS, job_class
from emberq.pipelines.job import Job

_HEAD = """# Jobs on Spark: options

Every job is a class in Python (`from emberq.pipelines.archive import Archive`), a command
(`emberq spark archive --topics orders --path lake`) and a YAML file (`emberq spark run FILE`) with
the same options: `partitionBy` in a file is `--partition-by` on the command line and
`partition_by` in Python. [How to use them](../guides/spark-jobs.md).

Commands have `--master` and `--conf KEY=VALUE` for Spark, `--dry-run` (what would be done) and
`--json` (the report as JSON) as well.

In a file, options may stand in sections: `target`, `trigger` and `options`; `spark` has `master`
and `conf`. Under `source`, where names are in any case, `subscribe` means `topics`, and
`nameServer` and `consumerGroup` are those of the job. So that jobs can share the section, a job
without an option `consumerGroup`, such as `verify`, accepts one there, for its source alone. Lists
are names separated by commas, times without a zone are in UTC, and an option without a value is not
given. Names that YAML takes for true or false, such as `on`, need quotes. `trigger` is
`every: 30s`, `availableNow` (all that is there, as without it) or `continuous`, which begins a
batch as soon as the last one is done; Spark has no other continuous mode for sources in Python.

## All jobs
"""


def render() -> str:
    """The whole page."""
    shared = msgspec.structs.fields(Job)
    names = {field.name for field in shared}
    parts = [_HEAD, _table([field for field in shared if field.name != "spark"])]
    for name in JOBS:
        kind = job_class(name)
        own = [field for field in msgspec.structs.fields(kind) if field.name not in names]
        parts += [f"\n## {name}\n", f"{inspect.getdoc(kind)}\n", _table(own)]
    return "\n".join(parts)


def _table(fields: list[msgspec.structs.FieldInfo]) -> str:
    rows = ["| Option | Default | Meaning |", "|---|---|---|"]
    rows += [
        f"| `{field.encode_name}` | {_default(field)} | {_meaning(field)} |" for field in fields
    ]
    return "\n".join(rows) + "\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value: Any = None if field.default is msgspec.NODEFAULT else field.default
    if value in (None, "", False):
        return ""
    return f"`{value}`"


def _meaning(field: msgspec.structs.FieldInfo) -> str:
    meta = next((each for each in get_args(field.type) if isinstance(each, msgspec.Meta)), None)
    return (meta.description if meta is not None else None) or ""
