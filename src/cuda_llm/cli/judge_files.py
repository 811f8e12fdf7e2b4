"""`cuda-llm judge-files`: answers the works of searches that wait in a folder for a device here."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cuda_llm.own_thread import await_here

JUDGED_SCHEMA = 1


def judge_files(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of searches with --device files:DIR.")
    ],
    device: Annotated[str, typer.Option(help="Device of this machine that answers.")] = "auto",
    limit_s: Annotated[
        float | None,
        typer.Option("--limit-s", min=1, help="Stop after so many seconds; the rest waits on."),
    ] = None,
    watch: Annotated[bool, typer.Option(help="Wait for more works until Ctrl-C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> int:
    """Judge what searches elsewhere have put into a folder, and put the answers beside it.

    Whoever can write to the folder has code of this package run here: keep the folder private.
    """
    from cuda_llm.cli.json_text import json_text, print_document
    from cuda_llm.redaction import printable
    from cuda_llm.tools.cluster.answer_orders import answer_orders
    from cuda_llm.tools.cluster.order_folder import OrderFolder
    from cuda_llm.tools.open_device import open_device, prepare_device, print_line

    place = OrderFolder(folder.expanduser().resolve())
    place.prepare()
    chosen = open_device(device)
    prepare_device(chosen)
    found = await_here(
        answer_orders(
            place,
            chosen,
            limit_s=limit_s,
            watch=watch,
            report=lambda line: print_line(printable(line)),
        )
    )
    if as_json:
        print_document(json_text({"schema": JUDGED_SCHEMA, "device": chosen.name, **asdict(found)}))
    else:
        typer.echo(
            printable(
                f"{chosen.name}: {found.answered} answered ({found.failed} with an error), "
                f"{found.left} left, {found.seconds:.0f} s"
            )
        )
    return 0
