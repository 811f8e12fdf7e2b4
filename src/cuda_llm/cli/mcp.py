"""`cuda-llm mcp`: the judge for coding agents, over the Model Context Protocol."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cuda_llm.errors import MissingError, UsageError
from cuda_llm.own_thread import await_here


def mcp(
    transport: Annotated[
        Literal["stdio", "http"],
        typer.Option(help="stdio for a client that starts the server, http (streamable) else."),
    ] = "stdio",
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine, of http.")
    ] = 8765,
    device: Annotated[str, typer.Option(help="Device that judges.")] = "auto",
    precision: Annotated[
        Literal["quick", "normal", "high"],
        typer.Option(help="How sure the times of a GPU are to be: some 1, 5 or 15 s a kernel."),
    ] = "normal",
    limit_s: Annotated[
        float, typer.Option("--limit-s", min=1, help="Longest that a call may take, in s.")
    ] = 600.0,
    tasks: Annotated[Path, typer.Option(help="Folder that import_task writes to.")] = Path(),
    runs: Annotated[
        Path | None, typer.Option(help="Folder of runs to show.  [default: traces/runs]")
    ] = None,
) -> None:
    """Serve the judge to coding agents over the Model Context Protocol, until the client ends.

    Tools: list_tasks, show_task, judge, compare, explain, hardware, import_task. Kernels run
    contained as in evaluate; http answers this machine alone, without asking who calls.
    """
    try:
        from cuda_llm.cli.mcp_server import Desk, make_server
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("mcp"):
            raise
        raise MissingError("the MCP SDK", "install it: pip install 'cuda-llm[mcp]'") from None
    from cuda_llm.graph.judge import LoopJudge, options_as_asked
    from cuda_llm.tools.open_device import open_device

    opened = open_device(device)
    options = options_as_asked(precision)

    async def serve() -> None:
        async with LoopJudge(opened, options) as judge:
            server = make_server(Desk(judge=judge, limit_s=limit_s), tasks, runs)
            if transport == "stdio":
                await server.run_stdio_async()
            else:
                typer.echo(f"http://127.0.0.1:{port}/mcp: {opened.name}", err=True)
                await server.run_streamable_http_async(port=port)

    try:
        await_here(serve())
    except SystemExit:
        # What uvicorn does where it cannot listen.
        raise UsageError(f"--port {port}: cannot be listened on; choose another") from None
