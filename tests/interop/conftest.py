"""Fixtures of the tests with official software: a cluster per line, stopped whatever happens."""

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.client_behaviour.server import Server
from tests.interop.harness.artifacts import (
    LINES,
    ArtifactsUnavailable,
    Line,
    client_jars,
    is_resolved,
    missing_tools,
    server_jars,
)
from tests.interop.harness.behaving import start_behaving_server
from tests.interop.harness.cluster import Cluster, start_cluster
from tests.interop.harness.foreign_programs import missing_tool
from tests.interop.harness.processes import running_processes
from tests.interop.harness.scenario_client import LANGUAGES, ClientPair, start_pair
from tests.interop.harness.sites import Sites, start_sites

LOG_LINES_MAX = 15
# Written on every start of a tool or client that has no access control configured.
HARMLESS = "acl isn't be enabled"


@pytest.fixture(scope="session")
def official_artifacts() -> None:
    """Java, Maven and the official jars; without them skip, or on CI fail."""
    if reason := unavailable_reason():
        skip_or_fail(reason)


def skip_or_fail(reason: str) -> None:
    """A check that silently does not run is none, so on CI it fails."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"interop tests must run on CI: {reason}", pytrace=False)
    pytest.skip(reason)


def unavailable_reason() -> str | None:
    if missing := missing_tools():
        return f"not found: {', '.join(missing)} (official software needs a JDK and Maven)"
    try:
        for line in LINES:
            server_jars(line)
            client_jars(line)
    except ArtifactsUnavailable as error:
        return str(error)
    return None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Download and build before the first test: it takes longer than a test may."""
    is_wanted = any("official_artifacts" in getattr(i, "fixturenames", ()) for i in session.items)
    if not is_wanted or session.config.option.collectonly or missing_tools():
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not all(is_resolved(line) for line in LINES):
        reporter.write_line("resolving the official artifacts (once, by Maven) ...")
    unavailable_reason()  # the fixture reports what went wrong
    languages = {
        item.callspec.params.get("language") for item in session.items if hasattr(item, "callspec")
    }
    if reporter is not None and languages & {"go", "node"}:
        reporter.write_line("preparing the Go and Node clients (minutes at the first time) ...")
    for name in languages & {"go", "node"}:
        language_trouble(name)


def language_trouble(name: str) -> str | None:
    """Why the programs of a language cannot run here; builds them if they can."""
    if missing := missing_tool(*LANGUAGES[name].tools):
        return missing
    try:
        LANGUAGES[name].prepare()
    except ArtifactsUnavailable as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def pairs(
    sites: Sites, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], ClientPair]]:
    """Programs of a language on both sites. The one used last goes on running, no other."""
    started: dict[str, ClientPair] = {}

    def pair(language: str) -> ClientPair:
        if trouble := language_trouble(language):
            skip_or_fail(trouble)
        for other in set(started) - {language}:  # two cores are few
            started.pop(other).kill()
        if language not in started:
            home = tmp_path_factory.mktemp(f"client-{language}-")
            started[language] = start_pair(LANGUAGES[language], sites, home)
        return started[language]

    yield pair
    for running in started.values():
        running.kill()


@pytest.fixture(scope="session", params=LINES, ids=lambda line: str(line.name))
def line(request: pytest.FixtureRequest, official_artifacts: None) -> Line:
    chosen: Line = request.param
    return chosen


@pytest.fixture(scope="session")
def cluster(line: Line, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp(f"cluster-{line.name}-")
    try:
        yield start_cluster(line, home)
    finally:
        stop_everything(home)


@pytest.fixture
def own_cluster(line: Line, home: Path) -> Iterator[Cluster]:
    """The same for one test that ends a transaction: an official broker of 5.5 that has seen one
    keeps a core busy until it stops."""
    try:
        yield start_cluster(line, home)
    finally:
        stop_everything(home)


@pytest.fixture(scope="module")
def sites(official_artifacts: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """A broker of ours and an official one, each with a name server of its own.

    Not for all modules: since its first transaction the official one keeps a core busy.
    """
    home = tmp_path_factory.mktemp("sites-")
    try:
        yield start_sites(home)
    finally:
        stop_everything(home)


@pytest.fixture(scope="session")
def tool_sites(
    official_artifacts: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    """The same for tools, which list everything: nothing may happen on one site only, so the
    clients, which do not do everything in the same order, have others."""
    home = tmp_path_factory.mktemp("tool-sites-")
    try:
        yield start_sites(home)
    finally:
        stop_everything(home)


@pytest.fixture(scope="module")
def behaving(
    official_artifacts: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Line | None], Server]]:
    """A server of a line, or of ours, when it is asked for; the one before ends then."""
    running: dict[Line | None, tuple[Server, Path]] = {}

    def start(line: Line | None) -> Server:
        for other in set(running) - {line}:  # two cores are few
            stop_everything(running.pop(other)[1])
        if line not in running:
            home = tmp_path_factory.mktemp("behaving-")
            running[line] = start_behaving_server(line, home), home
        return running[line][0]

    yield start
    for _, home in running.values():
        stop_everything(home)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def stop_everything(under: Path | None = None) -> None:
    """End what the harness started, or what it started in a folder."""
    for process in running_processes():
        if under is None or (process.home and process.home.is_relative_to(under)):
            process.kill()


def pytest_sessionfinish() -> None:
    stop_everything()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the processes said when a test fails."""
    report = yield
    if report.failed:
        for process in running_processes():
            report.sections.append((f"output of {process.name}", process.tail()))
            report.sections += log_tails(process.home)
    return report


def log_tails(home: Path | None) -> list[tuple[str, str]]:
    """Warnings and errors at the end of the official programs' own log files."""
    tails = []
    for log in sorted((home / "logs").rglob("*.log")) if home else []:
        text = log.read_text(errors="replace").splitlines()
        serious = [
            entry
            for entry in text
            if (" WARN " in entry or " ERROR " in entry) and HARMLESS not in entry
        ]
        if serious:
            tails.append((str(log), "\n".join(serious[-LOG_LINES_MAX:])))
    return tails
