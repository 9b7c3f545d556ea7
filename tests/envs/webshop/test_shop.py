from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.webshop.text import page_url, receipt_options, rich_text
from agent_gym.envs.webshop.world.actions import click, clickable, parse_action
from agent_gym.envs.webshop.world.kinds import Compat, PageKind, RewardKind, SubPage
from agent_gym.envs.webshop.world.nouns import NounOrigin, Nouns, heuristic_nouns
from agent_gym.envs.webshop.world.product import Product
from agent_gym.envs.webshop.world.shop import Session, Shop
from tests.envs.webshop.recorded import MemoryCatalog, plain_text
from tests.envs.webshop.small_shop import AWKWARD, HOSTILE, goal

NOUNS = Nouns(None, heuristic_nouns, NounOrigin.HEURISTIC)
ITEMS = tuple(
    Product(
        f"B{number:09d}",
        f"Shirt {number}",
        description="Soft." if number else "",
        bullets=("Warm", "", " \n ", "Dry"),
        query="shirts",
        category="fashion",
        product_category="Clothing › Shirts",
        options=(("color", ("red", "blue", "features")), ("size", ("s", "red"))),
        attributes=("warm",),
    )
    for number in range(23)
)


def session(compat: Compat = Compat.UPSTREAM, attributes: bool = False) -> Session:
    catalog = MemoryCatalog(ITEMS, dict.fromkeys((item.asin for item in ITEMS), 10.0))

    def engine(query: str, count: int) -> list[int]:
        return list(range(len(ITEMS)))[:count] if "shirt" in query else []

    return Session(Shop(catalog, engine, NOUNS, compat=compat, show_attributes=attributes), goal())


def after(*actions: str, compat: Compat = Compat.UPSTREAM, attributes: bool = False) -> Session:
    """A session after these actions, all of which are accepted."""
    visit = session(compat, attributes)
    for action in actions:
        assert visit.act(action), action
    return visit


class TestPages:
    def test_the_start_page_can_only_be_searched(self) -> None:
        visit = session()
        assert visit.clickables() == ("search",)
        assert visit.admissible() == ()
        assert visit.has_search_box
        for action in ("click[search]", "click[buy now]", "search[]", "search", "Search[shirt]", "search [shirt]"):
            assert not visit.act(action)

    def test_results_come_in_pages_of_ten_without_an_upper_bound(self) -> None:
        visit = after("search[shirt]")
        assert len(visit.page().products) == 10
        assert "click[< prev]" not in visit.admissible()
        for expected in (10, 3, 0, 0):
            assert visit.act("click[next >]")
            assert len(visit.page().products) == expected
            assert visit.page().total == 23
        assert visit.act("click[< prev]")
        assert visit.page().number == 4

    def test_a_search_that_finds_nothing_shows_an_empty_page(self) -> None:
        assert after("search[lamp]").page().total == 0

    def test_options_are_kept_over_sub_pages_and_lost_on_the_way_back(self) -> None:
        visit = after("search[shirt]", "click[b000000003]", "click[blue]", "click[description]")
        assert visit.kind is PageKind.SUB_PAGE
        assert visit.act("click[< prev]")
        assert visit.selected == {"color": "blue"}
        assert visit.act("click[< prev]")
        assert (visit.kind, visit.selected, visit.product) == (PageKind.RESULTS, {}, None)
        assert visit.page().visited == {"B000000003"}
        assert visit.act("click[back to search]")
        assert visit.visited == set()

    def test_going_back_returns_to_the_same_page_of_results(self) -> None:
        visit = after("search[shirt]", "click[next >]", "click[b000000015]", "click[< prev]")
        assert visit.page().number == 2

    def test_choosing_again_replaces_the_value_of_the_axis(self) -> None:
        visit = after("search[shirt]", "click[b000000003]", "click[blue]", "click[s]")
        assert visit.selected == {"color": "blue", "size": "s"}

    def test_a_value_on_two_axes_sets_the_last_one(self) -> None:
        assert after("search[shirt]", "click[b000000003]", "click[red]").selected == {"size": "red"}

    def test_a_value_named_like_a_button_takes_its_place(self) -> None:
        visit = after("search[shirt]", "click[b000000003]", "click[features]")
        assert (visit.kind, visit.selected) == (PageKind.ITEM, {"color": "features"})
        assert visit.clickables().count("features") == 1

    def test_names_are_taken_in_any_case_and_what_follows_the_bracket_is_dropped(self) -> None:
        visit = after("search[SHIRT] please", "click[B000000003]", "click[BLUE]")
        assert visit.selected == {"color": "blue"}

    def test_the_attributes_page_needs_its_option(self) -> None:
        assert not after("search[shirt]", "click[b000000003]").act("click[attributes]")
        visit = after("search[shirt]", "click[b000000003]", "click[attributes]", attributes=True)
        assert visit.sub_page is SubPage.ATTRIBUTES
        assert plain_text(visit.page()).endswith(
            "[SEP] < Prev [SEP] warm [SEP] fashion [SEP] shirts [SEP] Clothing › Shirts"
        )

    def test_an_empty_feature_is_an_empty_segment_and_blanks_with_a_line_break_are_none(self) -> None:
        text = plain_text(after("search[shirt]", "click[b000000003]").page())
        assert text.endswith("Features [SEP] Reviews [SEP] Buy Now")
        visit = after("search[shirt]", "click[b000000003]")
        visit.open_sub_page(SubPage.FEATURES)
        assert plain_text(visit.page()).endswith("< Prev [SEP] Warm [SEP]  [SEP] Dry")

    def test_buying_ends_the_visit(self) -> None:
        visit = after("search[shirt]", "click[b000000003]", "click[buy now]")
        assert visit.done
        assert visit.reward is not None
        assert visit.clickables() == visit.admissible() == ()
        assert not visit.act("click[back to search]")

    def test_counters_count_as_upstream(self) -> None:
        visit = after("search[shirt]", "click[next >]", "click[b000000012]", "click[s]", "click[reviews]")
        assert dict(visit.counters) == {"search": 2, "asin": 1, "options": 1, "Reviews": 1}


class TestCompat:
    def test_a_search_works_on_every_page_upstream_and_needs_its_box_in_the_fixed_shop(self) -> None:
        assert after("search[shirt]", "click[b000000003]").act("search[lamp]")
        visit = after("search[shirt]", "click[b000000003]", compat=Compat.FIXED)
        page = visit.page()
        assert not visit.act("search[lamp]")
        assert visit.page() is page

    @pytest.mark.parametrize("value", AWKWARD)
    def test_every_shown_value_can_be_clicked_in_the_fixed_shop(self, value: str) -> None:
        assert parse_action(click(value), Compat.FIXED) == ("click", value.lower())

    @pytest.mark.parametrize("value", AWKWARD)
    def test_every_shown_value_can_be_chosen_and_bought_in_the_fixed_shop(self, value: str) -> None:
        catalog = MemoryCatalog((HOSTILE,), {HOSTILE.asin: 20.0})
        shop = Shop(catalog, lambda query, count: [0], NOUNS, compat=Compat.FIXED, reward=RewardKind.STRICT)
        visit = Session(shop, goal(value))
        for action in ("search[x]", f"click[{HOSTILE.asin}]", click(value), "click[buy now]"):
            assert action.lower() in visit.admissible() or action == "search[x]"
            assert visit.act(action)
        assert visit.reward is not None
        assert visit.reward.r_option == 1.0

    def test_values_with_brackets_cannot_be_clicked_upstream_and_are_not_listed(self) -> None:
        assert [value for value in AWKWARD if not clickable(value, Compat.UPSTREAM)] == ["size [m]"]
        for value in AWKWARD:
            read = parse_action(click(value), Compat.UPSTREAM)
            assert clickable(value, Compat.UPSTREAM) == (read == ("click", value.lower()))

    @given(st.text(max_size=12))
    @settings(max_examples=200, deadline=None)
    def test_a_listed_name_is_read_back_as_itself(self, name: str) -> None:
        for compat in Compat:
            if clickable(name.lower(), compat):
                assert parse_action(click(name), compat) == ("click", name.lower())

    def test_nested_brackets_are_no_action_upstream_and_a_query_in_the_fixed_grammar(self) -> None:
        assert parse_action("search[a[b]]", Compat.UPSTREAM) is None
        assert parse_action("search[a[b]]", Compat.FIXED) == ("search", "a[b]")

    @pytest.mark.parametrize("value", ["café", '5 | 8"'])
    def test_selected_values_that_json_escapes_are_marked_in_the_fixed_shop_only(self, value: str) -> None:
        catalog = MemoryCatalog((HOSTILE,), {HOSTILE.asin: 20.0})
        visit = Session(Shop(catalog, lambda query, count: [0], NOUNS), goal())
        for action in ("search[x]", f"click[{HOSTILE.asin}]", f"click[{value}]"):
            assert visit.act(action)
        mark = f"  [clicked button] {value} [clicked button_]"
        assert mark not in rich_text(visit.page(), Compat.UPSTREAM)
        fixed = rich_text(visit.page(), Compat.FIXED)
        assert mark in fixed
        assert fixed.startswith(f"You have clicked {value}.\n")


def test_addresses_are_upstreams() -> None:
    visit = after("search[red  shirt]")
    base = "http://127.0.0.1:3000"
    assert page_url(visit.page(), "7") == f"{base}/search_results/7/red++shirt/1"
    visit.act("click[b000000003]")
    visit.act("click[blue]")
    assert page_url(visit.page(), "7") == f'{base}/item_page/7/B000000003/red++shirt/1/{{"color": "blue"}}'
    visit.open_sub_page(SubPage.REVIEWS)
    expected = f"{base}/item_sub_page/7/B000000003/red++shirt/1/Reviews/{{'color': 'blue'}}"
    assert page_url(visit.page(), "7") == expected
    visit.act("click[< prev]")
    visit.act("click[buy now]")
    assert page_url(visit.page(), "7") == f"{base}/done/7/B000000003/{{'color': 'blue'}}"
    assert page_url(session().page(), "7") == f"{base}/7"


def test_the_receipt_prints_options_sorted_and_safe_for_markup() -> None:
    assert receipt_options({"size": "s", "color": "<b> & 'x'"}) == (
        '{"color": "\\u003cb\\u003e \\u0026 \\u0027x\\u0027", "size": "s"}'
    )


def test_a_copy_goes_its_own_way_and_shares_the_shop() -> None:
    visit = after("search[shirt]", "click[b000000003]")
    twin = copy.deepcopy(visit)
    assert twin.act("click[blue]")
    assert (visit.selected, twin.selected) == ({}, {"color": "blue"})
    assert twin.shop is visit.shop
    with pytest.raises(TypeError, match="without a maker"):
        pickle.dumps(visit.shop)


@given(st.lists(st.sampled_from(["search[shirt]", "search[x]", *(f"#{n}" for n in range(16))]), max_size=12))
@settings(max_examples=60, deadline=None)
def test_every_admissible_click_is_accepted_and_rejected_ones_change_nothing(moves: list[str]) -> None:
    for compat in Compat:
        visit = session(compat, attributes=True)
        for move in moves:
            admissible = visit.admissible()
            if move.startswith("#") and admissible:
                assert visit.act(admissible[int(move[1:]) % len(admissible)])
            elif not move.startswith("#"):
                expected = visit.has_search_box or compat is Compat.UPSTREAM
                assert visit.act(move) == expected
            page = visit.page()
            assert not visit.act("click[no such name]")
            assert visit.page() is page
            if visit.done:
                break
