"""`agent-gym serve`: services over HTTP."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the subcommands."""
    group = typer.Typer(help="Serve data over HTTP.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_group)
    group.command("retriever")(retriever)
    app.add_typer(group, name="serve")


def _group() -> None:
    """Serve data over HTTP."""


def retriever(
    index: str = typer.Argument(..., help="Index folder or corpus file."),
    kind: str = typer.Option("bm25", "--kind", help="Ranking: bm25, dense or hybrid."),
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen on; 0.0.0.0 for other machines."),
    port: int = typer.Option(8000, "--port", min=0, max=65535, help="Port; 0 takes a free one."),
    topk: int = typer.Option(3, "--topk", min=1, help="Passages per query when a request names no number."),
    threads: int = typer.Option(2, "--threads", min=1, help="Searches at once."),
) -> None:
    """Serve a corpus to clients of Search-R1, verl-agent and SkyRL, until Ctrl-C.

    \b
        agent-gym serve retriever wiki.index --port 8000
        curl localhost:8000/retrieve -d '{"queries": ["who founded Rush"], "topk": 3, "return_scores": true}'
        curl localhost:8000/retrieve -d '{"query": "who founded Rush"}'

    GET /health tells size and fingerprint, GET /metrics counts requests (Prometheus). Ctrl-C or SIGTERM finish the
    requests in progress first.
    """
    from agent_gym.cli.index import parse_kind
    from agent_gym.retrieval.opening import open_retriever
    from agent_gym.retrieval.server import ServerConfig, serve

    config = ServerConfig(default_k=topk, most_k=max(topk, ServerConfig().most_k), threads=threads)
    corpus = open_retriever(index, parse_kind(kind))
    serve(
        corpus,
        host=host,
        port=port,
        config=config,
        on_listening=lambda address: typer.echo(f"{corpus.size} passages at {address}/retrieve"),
    )
