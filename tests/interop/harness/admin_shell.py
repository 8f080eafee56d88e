"""mqadmin commands, run one after another in one JVM."""

from pathlib import Path

from tests.interop.harness.artifacts import Line
from tests.interop.harness.java import admin_class_path, java_command, prepare_home
from tests.interop.harness.processes import TestProcess, without_noise

# The first one waits for a JVM to start, on a busy machine half a minute.
COMMAND_TIMEOUT_S = 90.0


class AdminShell:
    """The official tools of one line."""

    def __init__(self, line: Line, home: Path) -> None:
        prepare_home(home)
        command = java_command(
            "AdminShell",
            class_path=admin_class_path(line),
            home=home,
            heap_mb=128,
            options=("-Djava.security.manager=allow",),
        )
        self.process = TestProcess(f"mqadmin {line.server_version}", command, home)

    def wait_for_boot(self) -> None:
        self.process.wait_for_line("^ready$", COMMAND_TIMEOUT_S)

    def run(self, *arguments: str) -> list[str]:
        """The output lines of a command."""
        start = len(self.process.lines)
        self.process.stdin.write("\t".join(arguments) + "\n")
        self.process.stdin.flush()
        head = self.process.wait_for_line(r"^answer \d+$", COMMAND_TIMEOUT_S, after=start)
        count = int(head.split()[1])
        first = self.process.lines.index(head, start) + 1
        return without_noise(self.process.wait_for_lines(first, count, COMMAND_TIMEOUT_S))
