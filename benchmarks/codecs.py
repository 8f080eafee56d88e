"""Runs the codec benchmarks under pyperf, each in processes of its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyperf  # type: ignore[import-untyped] # it has no annotations
from msgspec import Struct

FILES = ("bench_frame.py", "bench_header.py")
_HERE = Path(__file__).parent
# pyperf's own default is 20 processes, about a minute per file: more than these figures need.
FULL = ("--processes", "4", "--values", "3", "--warmups", "1")
QUICK = ("--processes", "1", "--values", "2", "--warmups", "1", "--min-time", "0.02")


class CodecFigure(Struct, frozen=True, kw_only=True):
    name: str
    mean_us: float
    deviation_us: float


def measure_codecs(*, quick: bool) -> list[CodecFigure]:
    figures: list[CodecFigure] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            output = Path(folder) / f"{name}.json"
            command = [sys.executable, str(_HERE / name), "--quiet", "--output", str(output)]
            command += ["--inherit-environ", "PYTHONPATH", *(QUICK if quick else FULL)]
            subprocess.run(command, check=True, env=os.environ, stdout=subprocess.DEVNULL)
            figures += [_figure(bench) for bench in pyperf.BenchmarkSuite.load(str(output))]
    return figures


def _figure(bench: pyperf.Benchmark) -> CodecFigure:
    return CodecFigure(
        name=bench.get_name(),
        mean_us=round(bench.mean() * 1e6, 3),
        deviation_us=round(bench.stdev() * 1e6 if bench.get_nvalue() > 1 else 0.0, 3),
    )
