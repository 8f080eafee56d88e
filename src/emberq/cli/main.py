"""The command `emberq` and its subcommands, each imported when it is called."""

import sys
from importlib import import_module

import click

from emberq import __version__
from emberq.cli.failures import sentence
from emberq.errors import EmberqError

# Name → (module:attribute, one line of help): listing the commands imports none of them.
COMMANDS = {
    "broker": ("emberq.cli.broker:broker", "Start a broker."),
    "message": ("emberq.cli.message:message", "Find messages and their traces."),
    "namesrv": ("emberq.cli.namesrv:namesrv", "Start a name server."),
    "spark": ("emberq.cli.spark:spark", "Topics as data: jobs on Spark."),
    "standalone": ("emberq.cli.standalone:standalone", "Start a name server and brokers here."),
    "store": ("emberq.cli.store:store", "Look into a store directory."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads them on use."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module_name, attribute = entry[0].split(":")
        command = getattr(import_module(module_name), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _print_version(context: click.Context, is_asked: bool) -> None:
    if not is_asked:
        return
    from emberq.kernel import TWIN  # noqa: PLC0415 - only who asks pays for it

    click.echo(f"emberq {__version__} ({TWIN} kernel)")
    context.exit()


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, is_asked: _print_version(context, is_asked),
    help="Show the version and exit.",
)
def emberq() -> None:
    """A message-queue system in Python, compatible with Apache RocketMQ."""


def main() -> None:
    """Run the command line; a failure of ours or of the system is one line and exit code 1."""
    try:
        emberq(prog_name="emberq")
    except (EmberqError, OSError) as error:
        click.echo(f"emberq: {sentence(error)}", err=True)
        sys.exit(1)
