from __future__ import annotations

import json
import random
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.envs.webshop.site.addresses import Address, BadAddressError, read_address
from agent_gym.envs.webshop.site.markup import drawn_picture, purchase_code, remote_picture, render
from agent_gym.envs.webshop.site.visits import Goals, Visits
from agent_gym.envs.webshop.text import SEPARATOR, receipt_options
from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import Compat, PageKind, SubPage
from agent_gym.envs.webshop.world.pages import page_nodes
from agent_gym.envs.webshop.world.shop import Session
from agent_gym.support.errors import ConfigError
from tests.envs.webshop.recorded import KINDS, plain_text, recording
from tests.envs.webshop.small_shop import AWKWARD, HOSTILE, PLAIN, awkward_shop, goal, html_texts, recorded_shop

pytest.importorskip("starlette", reason="the site needs the extra [webshop]")
httpx = pytest.importorskip("httpx", reason="the site's tests need httpx")

from starlette.testclient import TestClient  # noqa: E402

from agent_gym.envs.webshop.site.app import MAX_BODY, ShopSite, SiteConfig  # noqa: E402

GOALS = Goals([goal(value, index) for index, value in enumerate(AWKWARD)])


def client_of(config: SiteConfig | None = None) -> TestClient:
    site = ShopSite(awkward_shop(), GOALS, SiteConfig() if config is None else config)
    return TestClient(site.application(), base_url="http://shop.test", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of()


def item(selected=None, session="s") -> str:
    return Address(PageKind.ITEM, session, ("shirt",), 1, HOSTILE.asin, selected or {}).path()


# Pages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compat", list(Compat))
def test_the_html_observation_has_the_texts_of_the_text_observation(compat):
    session = Session(awkward_shop(compat), goal(), "s")
    for step in (
        "",
        "search[shirt]",
        "click[b0hostile1]",
        "click[café]",
        *(f"click[{sub.value}]" for sub in SubPage),
    ):
        session.act(step)
        page = session.page()
        assert SEPARATOR.join(text.strip() for text in html_texts(render(page, "s"))) == plain_text(page)
        if page.kind is PageKind.SUB_PAGE:
            session.act("click[< prev]")
    session.act("click[buy now]")
    assert SEPARATOR.join(html_texts(render(session.page(), "s"))) == plain_text(session.page())


@pytest.mark.parametrize("kind", KINDS)
def test_markup_has_the_texts_of_the_text_observation_on_every_recorded_page(kind):
    _, episodes = recording(kind)
    shop, seen = recorded_shop(), set()
    for episode in episodes[::4]:
        session = Session(shop, Goal.from_record(episode["goal"]))
        for step in ({"action": ""}, *episode["steps"]):
            session.act(step["action"])
            page = session.page()
            receipt = receipt_options(page.selected) if page.kind is PageKind.DONE else ""
            texts = html_texts(render(page, "s", goal=session.goal, parts=session.reward))
            assert texts == [node.text for node in page_nodes(page, receipt)] or page.kind is PageKind.DONE
            assert SEPARATOR.join(text.strip() for text in texts) == plain_text(page)
            seen.add(page.kind)
    assert seen == set(PageKind)


def test_pages_have_the_originals_handles(client):
    index = client.get("/s").text
    assert 'id="search_input"' in index
    assert 'name="search_query"' in index
    results = client.post("/s", data={"search_query": "Shirt"})
    assert results.url.path.startswith("/search_results/s/")
    assert re.search(r'class="product-link"[^>]*>B0HOSTILE1<', results.text)
    found = client.get(item()).text
    for handle in (
        'id="product-image"',
        'class="btn btn-lg purchase"',
        'type="radio"',
        "data-url=",
        "product-title",
    ):
        assert handle in found
    done = client.post(Address(PageKind.DONE, "s", asin=HOSTILE.asin).path())
    assert 'id="reward"' in done.text
    assert purchase_code("ABC") == "3C01BDBB26"


def test_a_visit_from_search_to_purchase_earns_the_shops_reward(client):
    shown = client.get("/x-fixed_3")
    assert "café" in shown.text
    first = client.post("/x-fixed_3", data={"search_query": "warm SHIRT"}, follow_redirects=False)
    assert first.status_code == 303
    results = client.get(first.headers["location"])
    assert results.url.path.endswith("/1")
    chosen = client.get(item({"size": "café"}, "x-fixed_3"))
    assert "checked" in chosen.text
    receipt = client.post(Address(PageKind.DONE, "x-fixed_3", asin=HOSTILE.asin, selected={"size": "café"}).path())
    assert "<pre>1.0</pre>" in receipt.text
    other = client.post(Address(PageKind.DONE, "x-fixed_3", asin=PLAIN.asin).path())
    assert 0 < float(re.search(r"max 1.0\)</p>\n<pre>([\d.]+)</pre>", other.text)[1]) < 1


@pytest.mark.parametrize("value", AWKWARD)
def test_awkward_option_values_can_be_chosen_and_bought(client, value):
    shown = client.get(item({"size": value}))
    assert shown.status_code == 200
    links = re.findall(r'data-url="([^"]+)" checked', shown.text)
    assert len(links) == 1
    again = client.get(links[0])
    assert again.text == shown.text
    bought = client.post(re.search(r'action="(/done[^"]+)"', shown.text)[1])
    assert bought.status_code == 200
    assert receipt_options({"size": value}) in html_texts(bought.text)


def test_every_text_is_escaped(client):
    pages = [client.get(item()), client.get(item({"<i>colour</i>": "<script>"})), client.get("/s")]
    pages += [
        client.get(Address(PageKind.SUB_PAGE, "s", ("a",), 1, HOSTILE.asin, {}, sub).path()) for sub in SubPage
    ]
    pages.append(client.post("/s", data={"search_query": "<script>alert(1)</script>\"'"}))
    words = quote(json.dumps(["</a><script>alert(1)</script>", "shirt"]), safe="")
    pages.append(client.get(f"/search_results/s/{words}/1"))
    for page in pages:
        assert page.status_code == 200
        assert "<script>" not in page.text.replace('<script src="/static/site.js" defer></script>', "")
        assert "onerror=" not in re.sub(r"&lt;.*?&gt;", "", page.text)
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "javascript:" not in page.text


def test_pictures_are_local_unless_the_catalogues_are_asked_for(client):
    assert drawn_picture(PLAIN, None) == drawn_picture(PLAIN, None) != drawn_picture(PLAIN, "red")
    assert client.get(drawn_picture(PLAIN, None)).headers["content-type"] == "image/svg+xml"
    assert remote_picture(HOSTILE, None).startswith("/static/")  # an address that is no picture's
    outside = re.findall(r'(?:src|href)="(?!/)[^"]*"', client.get(item()).text)
    assert outside == []


# Sessions -----------------------------------------------------------------------------------------------


def test_session_names_fix_goals_and_others_draw_the_same_goal_every_time():
    visits = Visits(GOALS, limit=3)
    assert visits.get("fixed_5").goal == GOALS[5]
    assert visits.get("abc").goal == Visits(GOALS).get("abc").goal
    assert len({Visits(GOALS).get(f"n{number}").goal.index for number in range(60)}) > 10
    for number in range(10):
        visits.get(f"m{number}")
    assert len(visits) == 3
    with pytest.raises(BadAddressError, match="from 0 to 18"):
        visits.get("fixed_19")


def test_weights_decide_how_often_a_goal_is_drawn():
    goals = Goals([goal(index=index) for index in range(3)], [0.0, 3.0, 1.0])
    drawn = [goals.draw(number / 400).index for number in range(400)]
    assert [drawn.count(index) for index in range(3)] == [0, 300, 100]


def test_home_leads_to_a_new_session_or_to_the_pinned_one(client):
    first, second = (client.get("/", follow_redirects=False).headers["location"] for _ in range(2))
    assert first != second
    assert client.get(first).status_code == 200
    pinned = client_of(SiteConfig(session="fixed_2")).get("/", follow_redirects=False)
    assert pinned.headers["location"] == "/fixed_2"
    for session in ("fixed_99", "a/b", "a b"):
        with pytest.raises(ConfigError, match=f"--session.*got '{session}'"):
            client_of(SiteConfig(session=session))
    with pytest.raises(ConfigError):
        Visits(GOALS, limit=0)


def test_visits_are_logged_a_line_a_page(tmp_path):
    client = client_of(SiteConfig(log=tmp_path / "log"))
    client.get("/fixed_3")
    client.post("/fixed_3", data={"search_query": "shirt"})
    client.get(item({"size": "café"}, "fixed_3"))
    client.post(Address(PageKind.DONE, "fixed_3", asin=HOSTILE.asin, selected={"size": "café"}).path())
    client.get("/..%2fescape")
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["fixed_3.jsonl"]
    rows = [json.loads(line) for line in (tmp_path / "log" / "fixed_3.jsonl").read_text("utf-8").splitlines()]
    assert [row["page"] for row in rows] == ["index", "search_results", "item_page", "done"]
    assert rows[1]["content"]["search_result_asins"][0] in (HOSTILE.asin, PLAIN.asin)
    assert rows[2]["content"]["options"] == {"size": "café"}
    assert rows[3]["reward"] == 1.0
    assert rows[3]["reward_info"]["r_type"] == 1.0
    assert rows[0]["goal"]["asin"] == HOSTILE.asin


# Limits and hostile input -------------------------------------------------------------------------------

TEXTS = st.text(min_size=1, max_size=20)


@given(
    st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=6),
    st.dictionaries(TEXTS, TEXTS, max_size=4),
    st.sampled_from(list(PageKind)),
    st.sampled_from(list(SubPage)),
)
def test_addresses_hold_any_text(words, selected, kind, sub_page):
    words = [word for word in words if word.isprintable()] or ["w"]
    selected = {axis: value for axis, value in selected.items() if (axis + value).isprintable()}
    sub = sub_page if kind is PageKind.SUB_PAGE else None
    place = {} if kind in (PageKind.INDEX, PageKind.DONE) else {"keywords": tuple(words), "number": 7}
    product = {} if kind in (PageKind.INDEX, PageKind.RESULTS) else {"asin": "A/B", "selected": selected}
    address = Address(kind, "s-1", **place, **product, sub_page=sub)
    assert read_address(address.path().encode()) == address
    assert "/../" not in address.path() + "/"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/bad session", 400),
        ("/" + "s" * 65, 400),
        ("/static", 400),
        ("/%ff", 400),
        ("/a/b/c", 404),
        ("/../../etc/passwd", 404),
        ("/static/..%2f..%2fapp.py", 404),
        ("/static/site.css.map", 404),
        ("/static/picture-1e9.svg", 404),
        ("/" + "x" * 60_000, 400),
        ("/search_results/s/shoes/1", 400),
        ("/search_results/s/" + quote('["a"]') + "/0", 400),
        ("/search_results/s/" + quote('["a"]') + "/99999999", 400),
        ("/search_results/s/" + quote(json.dumps(["a" * 4097])) + "/1", 400),
        ("/search_results/s/" + "%5B" * 20_000 + "/1", 400),
        ("/item_page/s/NOSUCH/" + quote('["a"]') + "/1/%7B%7D", 404),
        ("/item_page/s/B0PLAIN002/" + quote('["a"]') + '/1/{"size":"x"}', 404),
        ("/item_page/s/B0PLAIN002/" + quote('["a"]') + "/1/{'size':'x'}", 400),
        ("/item_sub_page/s/B0PLAIN002/" + quote('["a"]') + "/1/Secrets/%7B%7D", 400),
        ("/done/s/B0PLAIN002/[]", 400),
        ("/search_results/s/" + quote('["\\ud800"]') + "/1", 400),
        ("/item_page/s/B0PLAIN002/" + quote('["\\udfff"]') + "/1/%7B%7D", 400),
        ("/item_page/s/B0PLAIN002/" + quote('["a"]') + "/1/" + quote('{"size":"\\ud83d"}'), 400),
        ("/done/s/B0PLAIN002/" + quote('{"\\ud800":"x"}'), 400),
        ("/x-fixed_999999", 404),
        ("/x-fixed_", 404),
    ],
)
def test_addresses_of_no_page_are_refused_with_a_page_that_says_so(client, path, status):
    answer = client.get(path)
    assert answer.status_code == status
    assert "Start again" in answer.text


def test_addresses_have_a_longest_length():
    with pytest.raises(BadAddressError, match="longer than"):
        read_address(b"/" + b"x" * 70_000)
    words = tuple(["\U0001f600"] * 2048)
    address = Address(PageKind.RESULTS, "s", words, 1)
    assert read_address(address.path().encode()) == address


def test_large_bodies_and_long_searches_are_refused(client):
    assert client.post("/s", content=b"search_query=" + b"a" * 10_000_000).status_code == 413
    chunks = (b"a" * 10_000 for _ in range(50))
    assert client.post("/s", content=chunks).status_code == 413
    assert client.post("/s", content=b"x", headers={"content-length": "-5"}).status_code == 413
    assert client.post("/s", data={"search_query": "a" * 4097}).status_code == 400
    assert client.post("/s", data={"search_query": "a" * 4096}).status_code == 200
    assert client.post("/s", data={"search_query": ""}, follow_redirects=False).headers["location"] == "/s"
    assert (
        client.post("/s", data={"search_query": "a"} | dict.fromkeys(map(str, range(19)), "x")).status_code == 200
    )
    assert (
        client.post("/s", data={"search_query": "a"} | dict.fromkeys(map(str, range(20)), "x")).status_code == 400
    )
    assert client.post("/s", content=b"x", headers={"content-length": "9" * 5_000}).status_code == 413
    assert client.post(item(), data={"a": "b"}).status_code == 405
    assert client.request("DELETE", "/s").status_code == 405
    assert MAX_BODY < 10_000_000


def fuzz(client: TestClient, count: int, seed: int) -> set[int]:
    """Send requests made of pieces of real addresses, mutated; returns the statuses that came back."""
    rng = random.Random(seed)
    pieces = ["search_results", "item_page", "item_sub_page", "done", "s", "fixed_1", HOSTILE.asin]
    pieces += ["Description", "Reviews", "..", ".", "", "%2e%2e", "%00", "%", "%zz", "%ff", "static", "health"]
    pieces += [quote(value, safe="") for value in AWKWARD]
    pieces += ['["a"]', "1", "{}", '{"size":"café"}', "[]", "[[", "null", "NaN", "1e999", "\\", "0", "-1"]
    pieces += [quote('["\\ud800"]'), quote('{"size":"\\udfff"}'), '["\\ud83d\\ude00"]']
    pieces += ["[" * 3000, '{"a":' * 500, "9" * 40, "<script>", "'; DROP TABLE", "a" * 3000, "?", "#", "?a=b", "*"]
    shapes = [
        f"/search_results/s/{quote(json.dumps(['shirt']))}/1",
        item(),
        item({"size": "it's"}),
        Address(PageKind.SUB_PAGE, "s", ("a",), 1, HOSTILE.asin, {}, SubPage.FEATURES).path(),
        Address(PageKind.DONE, "s", asin=HOSTILE.asin, selected={"size": "]"}).path(),
        "/s",
    ]
    statuses = set()
    for _ in range(count):
        if rng.random() < 0.5:
            path = "/" + "/".join(rng.choices(pieces, k=rng.randint(1, 8)))
        else:
            parts = rng.choice(shapes).split("/")
            parts[rng.randrange(1, len(parts))] = rng.choice(pieces)
            path = "/".join(parts)
        if rng.random() < 0.1:
            at = rng.randrange(len(path))
            path = path[:at] + chr(rng.choice([0x25, 0x26, 0x2F, 0x5C, 0x7E, 0xE9, 0x4F60])) + path[at + 1 :]
        scheme = rng.random()
        body = {"search_query": rng.choice([*AWKWARD, "a" * 5000, "\x00", "<r>", "<q> shirts", " ", "  x"])}
        if rng.random() < 0.1:
            body |= dict.fromkeys(map(str, range(rng.randrange(40))), "x")
        path = path.partition("#")[0]  # what follows never leaves the client
        url = "http://shop.test" + quote(path, safe="/%?#[]{}\"':;*\\<>&=+,@!$()~")
        if scheme < 0.6:
            answer = client.get(url, follow_redirects=False)
        elif scheme < 0.9:
            answer = client.post(url, data=body, follow_redirects=False)
        else:
            noise = bytes(rng.randrange(256) for _ in range(40))
            answer = client.request(rng.choice(["POST", "PUT", "HEAD", "OPTIONS", "GET"]), url, content=noise)
        statuses.add(answer.status_code)
    return statuses


def test_no_request_makes_the_site_fail(client):
    statuses = fuzz(client, 250, 0)
    assert max(statuses) < 500
    assert {200, 303, 400, 404} <= statuses


@pytest.mark.slow
def test_no_request_of_ten_thousand_makes_the_site_fail(client):
    assert max(fuzz(client, 10_000, 1)) < 500
