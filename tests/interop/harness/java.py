"""How Java is called: options, class path, and our small programs compiled against a line."""

import shutil
import subprocess
from pathlib import Path

from tests.interop.harness.artifacts import Line, cache_directory, client_jars, locked, server_jars

SOURCES = Path(__file__).parents[1] / "java"
COMPILE_TIMEOUT_S = 120

# Official software reaches into the JDK; tests start many short-lived JVMs, so: small heaps,
# the quick compiler only, and no collector threads.
OPTIONS = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xss512k"),
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED"),
    *("--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.util=ALL-UNNAMED"),
    *("--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"),
    *("-Dfile.encoding=UTF-8", "-Djava.net.preferIPv4Stack=true"),
)
SCENARIO_CLASSES = (
    *("ScenarioShell", "Clients", "SendScenarios", "PushScenarios", "PullScenarios"),
    *("RetryScenarios", "TimedScenarios", "LoadScenario", "ConversationScenarios"),
)
CLIENT_CLASSES = ("Producer", "PushConsumer", "StoreShell", "Mixed")
EMPTY_LOGBACK = '<configuration><root level="OFF"/></configuration>\n'


def java_command(
    main_class: str,
    *arguments: str,
    class_path: list[Path],
    home: Path,
    heap_mb: int = 64,
    options: tuple[str, ...] = (),
) -> list[str]:
    """A command line whose logs, stores and identity stay inside `home`."""
    entries = [f"{entry}/*" if any(entry.glob("*.jar")) else str(entry) for entry in class_path]
    return [
        *("java", *OPTIONS, f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m"),
        *(f"-Drocketmq.home.dir={home}", f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"),
        *(*options, "-cp", ":".join(entries), main_class, *arguments),
    ]


def prepare_home(home: Path) -> None:
    """Lay out what the official programs look for; 4.9 refuses to start without these files."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for part in ("namesrv", "broker", "tools"):
        (home / "conf" / f"logback_{part}.xml").write_text(EMPTY_LOGBACK)


def client_class_path(line: Line) -> list[Path]:
    """Our producers and consumers with the line's client."""
    jars = client_jars(line)
    return [
        _compiled(line, "client", jars, ("Producer", "PushConsumer", "StoreShell", "Mixed")),
        jars,
    ]


def scenario_class_path(line: Line) -> list[Path]:
    """Our scenarios with the line's client."""
    jars = client_jars(line)
    return [_compiled(line, "scenarios", jars, SCENARIO_CLASSES), jars]


def admin_class_path(line: Line) -> list[Path]:
    """Our admin shell with the line's tools."""
    jars = server_jars(line)
    return [_compiled(line, "admin", jars, ("AdminShell",)), jars]


def _compiled(line: Line, part: str, jars: Path, classes: tuple[str, ...]) -> Path:
    """The classes of our sources, compiled once per line and state of the sources."""
    sources = [SOURCES / f"{name}.java" for name in classes]
    name = f"classes-{part}-{line.name}"
    target = cache_directory() / name
    stamp = "".join(source.read_text() for source in sources)
    with locked(name):
        if _read_or_empty(target / "stamp") != stamp:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            done = subprocess.run(
                [
                    *("javac", "-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*"),
                    *("-d", str(target), *map(str, sources)),
                ],
                capture_output=True,
                text=True,
                check=False,
                timeout=COMPILE_TIMEOUT_S,
            )
            assert done.returncode == 0, f"javac, line {line.name}:\n{done.stdout}{done.stderr}"
            (target / "stamp").write_text(stamp)
    return target


def _read_or_empty(path: Path) -> str:
    return path.read_text() if path.exists() else ""
