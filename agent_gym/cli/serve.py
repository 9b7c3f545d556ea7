"""`agent-gym serve`: services over HTTP."""

from __future__ import annotations

from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add the subcommands."""
    group = typer.Typer(help="Serve data over HTTP.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_group)
    group.command("retriever")(retriever)
    group.command("webshop")(webshop)
    group.command("openenv")(openenv)
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
    from agent_gym.retrieval.service.server import ServerConfig, serve

    config = ServerConfig(default_k=topk, most_k=max(topk, ServerConfig().most_k), threads=threads)
    corpus = open_retriever(index, parse_kind(kind))
    serve(
        corpus,
        host=host,
        port=port,
        config=config,
        on_listening=lambda address: typer.echo(f"{corpus.size} passages at {address}/retrieve"),
    )


def webshop(
    catalog: str = typer.Option(
        "generated", "--catalog", help="Store, folder of the official files, or generated."
    ),
    goals: str = typer.Option("human", "--goals", help="Instructions that visitors get: human or synthetic."),
    session: str = typer.Option(None, "--session", help="Session of every visitor: fixed_N pins goal N."),
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen on; 0.0.0.0 for other machines."),
    port: int = typer.Option(3000, "--port", min=0, max=65535, help="Port; 0 takes a free one."),
    log: Path = typer.Option(None, "--log", help="Write each visit's pages to FOLDER/SESSION.jsonl."),
    attributes: bool = typer.Option(False, "--attrs", help="Show the products' attributes."),
    images: str = typer.Option("local", "--images", help="local drawings, or remote pictures of the catalogue."),
    reward: str = typer.Option("webshop", "--reward", help="Judge purchases as webshop (the original) or strict."),
    sessions: int = typer.Option(10_000, "--sessions", min=1, help="Sessions remembered at once."),
    seed: int = typer.Option(0, "--seed", help="Seed of the goals of sessions that name none."),
) -> None:
    """Serve the shop's site, for people and for agents that drive a browser, until Ctrl-C.

    \b
        agent-gym serve webshop
        agent-gym serve webshop --catalog webshop.store --session fixed_12 --log visits

    Every visitor of the address gets a session of their own with an instruction; /NAME_fixed_N is a session with
    goal N of the canonical order. Everything is served from here, so it works offline.
    """
    from agent_gym.envs.webshop.browser.tools import require_site
    from agent_gym.envs.webshop.data.catalogues import ShopWorld
    from agent_gym.envs.webshop.options import shop_spec
    from agent_gym.envs.webshop.world.kinds import GoalKind, RewardKind
    from agent_gym.support.checks import check_choice
    from agent_gym.support.errors import ConfigError

    require_site()
    from agent_gym.envs.webshop.site.app import SiteConfig
    from agent_gym.envs.webshop.site.server import serve
    from agent_gym.envs.webshop.site.setup import make_site

    if images not in ("local", "remote"):
        raise ConfigError(f"--images is local or remote, got {images!r}")
    world = ShopWorld.find(catalog, shop_spec("standard", {}), None)
    kind = check_choice("goals", GoalKind, goals)
    rules = {"reward": check_choice("reward", RewardKind, reward), "show_attributes": attributes}
    config = SiteConfig(session, images == "remote", log, sessions, seed)
    site = make_site(world, kind, rules, config)
    products = f"{len(site.shop.catalog):,} products, {len(site.goals):,} goals"
    serve(site, host, port, lambda address: typer.echo(f"{products} at {address}/"))


def openenv(
    env: str = typer.Argument(..., help="Environment id."),
    option: list[str] = typer.Option([], "--option", "-o", metavar="NAME=VALUE", help="Environment option."),
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen on; there is no authentication."),
    port: int = typer.Option(8000, "--port", min=1, max=65535, help="Port."),
    sessions: int = typer.Option(64, "--sessions", min=1, help="Connections at once."),
) -> None:
    """Serve an environment with OpenEnv's server (extra [openenv]), until Ctrl-C.

    \b
        agent-gym serve openenv Sokoban-v0 -o split=valid --port 8000
    """
    from agent_gym.adapters.openenv import create_app
    from agent_gym.terminal.options import parse_options

    app = create_app(env, parse_options(option), max_concurrent_envs=sessions)
    import uvicorn

    typer.echo(f"{env} at http://{host}:{port}")
    uvicorn.run(app, host=host, port=port, log_level="warning")
