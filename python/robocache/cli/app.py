"""The application `robocache`, with its commands by topic.

`--help` loads only their modules and `options.py`: each command's function imports the rest.
"""

from typing import Annotated

import typer

from robocache.cli import downstream, inspection, stores

app = typer.Typer(
    name="robocache",
    help="Turns robot recordings of many rates and formats into training data.",
    epilog="Example: robocache convert recordings/ store && robocache check store",
    no_args_is_help=True,
    rich_markup_mode=None,  # help in plain text costs no import of rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(is_wanted: bool) -> None:
    if not is_wanted:
        return
    import robocache

    print(f"robocache {robocache.__version__}")
    raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


for _topic in (inspection, stores, downstream):  # the order in `--help`
    app.add_typer(_topic.commands)
