"""The site's application (Starlette): addresses to pages, forms to addresses, limits on both.

Nothing that a request holds can raise: an address that stands for no page is answered with 404 or 400, a body
that is too large with 413 before it is read, and every text on a page is escaped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote
from uuid import uuid4

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from agent_gym.envs.webshop.html import render_error
from agent_gym.envs.webshop.site.addresses import (
    Address,
    BadAddressError,
    NoPageError,
    read_address,
    split_query,
)
from agent_gym.envs.webshop.site.log import VisitLog
from agent_gym.envs.webshop.site.markup import LOCAL_ASSETS, REMOTE_ASSETS, render
from agent_gym.envs.webshop.site.visits import MAX_SESSIONS, Goals, Visit, Visits
from agent_gym.envs.webshop.world.kinds import PageKind, SubPage
from agent_gym.envs.webshop.world.pages import PAGE_SIZE, Page
from agent_gym.envs.webshop.world.reward import RewardParts
from agent_gym.envs.webshop.world.shop import Shop
from agent_gym.support.errors import ConfigError

MAX_BODY: Final = 65_536
"""Bytes of a form."""
_MOST_FIELDS: Final = 20
_SEARCHES: Final = 4
"""Searches at once; each thread has working arrays of its own."""
_STATIC: Final = {
    "site.css": "text/css; charset=utf-8",
    "site.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_PICTURE: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 120"><rect width="120" height="120" '
    'fill="hsl({hue} 45% 88%)"/><path d="M30 48h60l-6 48H36z" fill="hsl({hue} 45% 55%)"/><path d="M44 54V42a16 16 '
    '0 0 1 32 0v12" fill="none" stroke="hsl({hue} 45% 40%)" stroke-width="5"/></svg>'
)
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True)
class SiteConfig:
    """How a site behaves.

    Attributes:
        session: Session that "/" leads to, for example "fixed_12"; None makes a new one for each visitor.
        remote_images: Whether pictures are loaded from where the catalogue says.
        log: Folder of the log of visits, None for no log.
        max_sessions: Sessions remembered at once.
        seed: Seed of the goals of sessions that name none.
    """

    session: str | None = None
    remote_images: bool = False
    log: Path | None = None
    max_sessions: int = MAX_SESSIONS
    seed: int = 0


@dataclass
class ShopSite:
    """A site on a shop; `application()` is what a server runs.

    Attributes:
        shop: The shop.
        goals: Goals that sessions get.
        config: How it behaves.
        digest: Names catalogue and goals, so that clients can tell whether it is the one they expect.
    """

    shop: Shop
    goals: Goals
    config: SiteConfig = field(default_factory=SiteConfig)
    digest: str = ""

    def __post_init__(self) -> None:
        self.visits = Visits(self.goals, seed=self.config.seed, limit=self.config.max_sessions)
        self._searches = CapacityLimiter(_SEARCHES)
        self._log = None if self.config.log is None else VisitLog(self.config.log)
        if self.config.session is not None:
            try:
                self.visits.get(read_address(quote(self.config.session, safe="").encode()).session)
            except BadAddressError as error:
                given = self.config.session
                raise ConfigError(
                    f"session (--session) must be a name such as mine or fixed_2, got {given!r}: {error}"
                ) from None
        folder = files(__package__) / "static"
        self._static = {name: (folder / name).read_bytes() for name in _STATIC}
        self._assets = REMOTE_ASSETS if self.config.remote_images else LOCAL_ASSETS
        images = "'self' https: http: data:" if self.config.remote_images else "'self'"
        self._headers = {
            **_HEADERS,
            "cache-control": "no-store",
            "content-security-policy": (
                f"default-src 'none'; style-src 'self'; script-src 'self'; img-src {images}; form-action 'self'; "
                "base-uri 'none'; frame-ancestors 'none'"
            ),
        }

    def application(self) -> Starlette:
        """Return the application."""
        routes = [
            Route("/", self._home),
            Route("/health", self._health),
            Route("/favicon.ico", self._favicon),
            Route("/static/{name}", self._asset),
            Route("/{rest:path}", self._page, methods=["GET", "POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: self._refused})

    async def _home(self, request: Request) -> Response:
        name = self.config.session or uuid4().hex[:10]
        return RedirectResponse(Address(PageKind.INDEX, name).path(), 302, self._headers)

    async def _health(self, request: Request) -> Response:
        found = {
            "status": "ok",
            "products": len(self.shop.catalog),
            "goals": len(self.goals),
            "digest": self.digest,
        }
        return JSONResponse(found | {"sessions": len(self.visits)})

    async def _favicon(self, request: Request) -> Response:
        return Response(self._static["icon.svg"], media_type=_STATIC["icon.svg"])

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        headers = {**_HEADERS, "cache-control": "max-age=3600"}
        if name in self._static:
            return Response(self._static[name], headers=headers, media_type=_STATIC[name])
        hue = name.removeprefix("picture-").removesuffix(".svg")
        if name == f"picture-{hue}.svg" and hue.isascii() and hue.isdecimal() and len(hue) <= 3:
            return Response(_PICTURE.format(hue=int(hue)), headers=headers, media_type="image/svg+xml")
        raise HTTPException(404, "there is no such file")

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return HTMLResponse(
            render_error(error.status_code, error.detail, self._assets), error.status_code, self._headers
        )

    async def _page(self, request: Request) -> Response:
        raw = request.scope.get("raw_path") or request.url.path.encode()
        try:
            address = read_address(raw)
            visit = self.visits.get(address.session)
            if request.method == "POST" and address.kind is PageKind.INDEX:
                return await self._search(request, address)
            if request.method == "POST" and address.kind is not PageKind.DONE:
                raise HTTPException(405, "this page takes no form")
            if address.kind is PageKind.RESULTS:  # a search can take a while: the other visitors do not wait
                await to_thread.run_sync(self.shop.hits, address.keywords, limiter=self._searches)
            page, parts = self._make(address, visit)
        except BadAddressError as error:
            raise HTTPException(404 if isinstance(error, NoPageError) else 400, str(error)) from error
        html = render(page, visit.name, assets=self._assets, goal=visit.goal, parts=parts)
        if self._log is not None:
            write = partial(self._log.write, visit.name, page, request.url.path, goal=visit.goal, parts=parts)
            await run_in_threadpool(write)
        return HTMLResponse(html.encode("utf-8", "replace"), headers=self._headers)

    async def _search(self, request: Request, address: Address) -> Response:
        body = (await _body(request)).decode("utf-8", "replace")
        try:
            form = parse_qs(body, max_num_fields=_MOST_FIELDS, errors="replace")
        except ValueError as error:
            raise HTTPException(400, f"a form has at most {_MOST_FIELDS} fields") from error
        text = form.get("search_query", [""])[0]
        if not text:
            target = address
        else:
            target = Address(PageKind.RESULTS, address.session, split_query(text), 1)
        return RedirectResponse(target.path(), 303, self._headers)

    def _make(self, address: Address, visit: Visit) -> tuple[Page, RewardParts | None]:
        """Return the page of an address, and the reward's parts where something is bought."""
        kind, goal = address.kind, visit.goal
        if kind is PageKind.INDEX:
            visit.visited.clear()
            return Page(kind, goal.instruction_text), None
        if kind is PageKind.RESULTS:
            rows, first = self.shop.hits(address.keywords), (address.number - 1) * PAGE_SIZE
            products = tuple(map(self.shop.catalog.product, rows[first : first + PAGE_SIZE]))
            place = (address.keywords, address.number, len(rows), products, frozenset(visit.visited))
            return Page(kind, goal.instruction_text, *place), None
        product = self.shop.product(address.asin)
        if product is None:
            raise NoPageError("there is no such product")
        for axis, value in address.selected.items():
            if value not in dict(product.options).get(axis, ()):
                raise NoPageError("the product has no such option")
        if address.sub_page is SubPage.ATTRIBUTES and not self.shop.show_attributes:
            raise NoPageError("there is no such page")
        parts = None
        if kind is PageKind.DONE:
            parts = self.shop.judge(goal, product, address.selected)
        elif kind is PageKind.ITEM:
            visit.open(product.asin)
        page = Page(
            kind,
            goal.instruction_text,
            address.keywords,
            address.number,
            product=product,
            selected=address.selected,
            sub_page=address.sub_page,
            show_attributes=self.shop.show_attributes,
            reward=0.0 if parts is None else parts.score,
        )
        return page, parts


async def _body(request: Request) -> bytes:
    """Return the body of a form.

    Raises:
        HTTPException: It is larger than `MAX_BODY`.
    """
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 20 or int(announced) > MAX_BODY:
        raise HTTPException(413, f"a form has at most {MAX_BODY:,} bytes")
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise HTTPException(413, f"a form has at most {MAX_BODY:,} bytes")
        parts.append(part)
    return b"".join(parts)
