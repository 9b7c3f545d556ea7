"""WebShop as a text environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from gymnasium.error import ResetNeeded

from agent_gym.core.env import Outcome, Situation, TextEnv, resolve_tasks
from agent_gym.core.tasks import Task, TaskSet
from agent_gym.envs.webshop.data.catalogues import GENERATED, NounChoice, ShopWorld, noun_choice
from agent_gym.envs.webshop.options import shop_spec
from agent_gym.envs.webshop.oracle import Purchase, next_action, plan
from agent_gym.envs.webshop.tasks import GoalTasks
from agent_gym.envs.webshop.text import page_url, rich_text, state_text, text_without_goal, with_goal
from agent_gym.envs.webshop.world.actions import SEARCH_TEMPLATE
from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import Compat, GoalKind, Observation, RewardKind, RewardScale
from agent_gym.envs.webshop.world.pages import Page
from agent_gym.envs.webshop.world.shop import Session
from agent_gym.support.arguments import checked
from agent_gym.support.checks import check_choice, check_flag
from agent_gym.support.errors import AgentGymError, ConfigError

_LONGEST: Final = 1 << 18
_LONGEST_HTML: Final = (
    1 << 21
)  # every link of a page repeats the query, up to twelve characters for each of its own
_CUT: Final = " [...]"
_SUCCESS_REWARD: Final = 10.0


class WebShopEnv(TextEnv):
    """Shopping on a simulated web shop: find the product that an instruction describes, choose its options, buy it.

    ## Description
    Pages, transitions, texts, search ranking and reward are those of WebShop (arXiv 2207.01206), without Java, on
    the official catalogue (`catalog=`) or on a generated one.

    ## Action Space
    `UnicodeText`: `search[words]`, and `click[name]` for what the page shows (`info["admissible_actions"]`; names
    in any case). Anything else changes nothing and shows the same page again.

    ## Observation Space
    `UnicodeText`: the page as `observation` says: "text" (texts joined by " [SEP] "), "text_rich" (a text a line,
    with `[button]` markers), "url" or "html". `info["prompt_observation"]` is the page without the instruction.
    At most 262,144 characters (html 2,097,152); what is longer is cut and marked `[...]`.

    ## Rewards
    On buying, the score in [0, 1]: for the kind of product, attributes, options and price asked for; 0 else. With
    `reward_scale="success"` 10 for a score of 1, else 0. Success is a score of 1.

    ## Starting State
    The start page with the search box. Splits, in the canonical order (shuffled with seed 233, as upstream):

    | catalogue | goals | train | valid | test |
    |---|---|---|---|---|
    | full (1,181,430 products) | human (12,087) | 1500-12086 | 500-1499 | 0-499 |
    | other, or synthetic goals | any | 88 % of the products | 8 % | 4 % |

    "all" is the whole canonical order. The 1,000-product subset has 6,910 synthetic goals and 13 human ones, so it
    can be used with `goals="synthetic"` only; splits by product keep the combinations of one product together,
    which ranges of the canonical order do not. The generated catalogue (default) has 1,000 products with 6 human
    goals each, and 24 thousand synthetic ones.

    ## Episode End
    Terminated on buying, truncated after `max_turns` (default 15) turns; actions that do nothing count.

    ## Information
    Beside the keys of `StepInfo`: `webshop/page` (kind of page), `webshop/options` (chosen, as "axis: value"),
    `webshop/goal_index` (place in the canonical order, -1 for other goals), `webshop/nouns` (where the reward takes
    nouns from: table, spacy or heuristic), and after buying the reward's parts: `webshop/r_type`, `webshop/r_att`,
    `webshop/r_option`, `webshop/r_price`, their weights `webshop/w_...`, `webshop/query_match`,
    `webshop/category_match`, `webshop/title_score`.

    ## Arguments

    Args:
        split: Split name; None is "train".
        catalog: "generated", a store (`agent-gym data import-webshop`), or a folder with the official files
            (also looked up below `AGENT_GYM_DATA`).
        goals: "human" or "synthetic".
        prices: Recorded price table: a JSON object identifier -> dollars. None takes the store's, which depends on
            its recorded seed only.
        observation: "text", "text_rich", "url" or "html".
        compat: "upstream" keeps the original's faults (option values with brackets cannot be clicked, a search
            works on every page, `text_rich` does not mark chosen values with quotes or accents); "fixed" mends
            them.
        reward: "webshop" (the original's formula, which takes "large" for "x-large" and "layered" for "red") or
            "strict" (options must be equal).
        reward_scale: "score" or "success".
        nouns: "auto" (the catalogue's table, else spaCy where it is installed, else a rule of thumb), "spacy",
            "heuristic", or a JSON file identifier -> nouns.
        show_attributes: Give item pages the button "Attributes".
        magic_queries: Answer the original's hidden queries ("<r>", "<q> ...", "<c> ...", "<a> ...").
        difficulty: Generated catalogue: "tiny", "easy", "standard" or "hard", the defaults of what follows.
        products: Products of a generated catalogue.
        catalog_seed: Seed of a generated catalogue.
        distractors: Look-alikes of each product.
        attributes: Attributes of a product.
        asked_attributes: Most attributes that a goal asks for.
        asked_options: Most options that a goal asks for.
        values: Most values of an option.
        goals_per_product: Human goals of a product.
        kinds: Kinds of products.
        detail: "full" or "short" pages.
        tasks: A TaskSet, a list of Task or a task file; excludes `split` and `goals`. They are played in the
            catalogue that the other arguments name.
        max_turns: Turn limit.
        render_mode: "ansi" or None.
        invalid_action: "continue", "terminate" or "raise"; see `TextEnv`.
        anchor: "state" or "observation"; see `TextEnv`.

    Raises:
        ConfigError: An argument is out of range.
        DataError: The catalogue is missing or malformed.

    ## Version History
    - v0: first version.
    """

    name: ClassVar[str] = "webshop"
    default_max_turns: ClassVar[int] = 15
    prompt_folder: ClassVar[Path] = Path(__file__).parent

    # the running episode
    _session: Session | None = None
    _purchase: Purchase | None = None
    _shown: Page | None = None
    _text = ""

    @checked
    def __init__(
        self,
        *,
        split: str | None = None,
        catalog: str | Path = GENERATED,
        goals: str | None = None,
        prices: str | Path | None = None,
        observation: str = Observation.TEXT,
        compat: str = Compat.UPSTREAM,
        reward: str = RewardKind.WEBSHOP,
        reward_scale: str = RewardScale.SCORE,
        nouns: str = NounChoice.AUTO,
        show_attributes: bool = False,
        magic_queries: bool = False,
        difficulty: str | None = None,
        products: int | None = None,
        catalog_seed: int | None = None,
        distractors: int | None = None,
        attributes: int | None = None,
        asked_attributes: int | None = None,
        asked_options: int | None = None,
        values: int | None = None,
        goals_per_product: int | None = None,
        kinds: int | None = None,
        detail: str | None = None,
        tasks: TaskSet | Sequence[Task] | str | Path | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        invalid_action: str = "continue",
        anchor: str = "state",
    ) -> None:
        knobs: dict[str, Any] = {
            "products": products,
            "seed": catalog_seed,
            "distractors": distractors,
            "kinds": kinds,
        }
        knobs |= {"attributes": attributes, "asked_attributes": asked_attributes, "asked_options": asked_options}
        knobs |= {"values": values, "goals": goals_per_product, "detail": detail}
        self.observation = check_choice("observation", Observation, observation)
        self.reward_scale = check_choice("reward_scale", RewardScale, reward_scale)
        self._rules: Mapping[str, Any] = {
            "compat": check_choice("compat", Compat, compat),
            "reward": check_choice("reward", RewardKind, reward),
            "nouns": noun_choice(nouns),
            "show_attributes": check_flag("show_attributes", show_attributes),
            "magic": check_flag("magic_queries", magic_queries),
        }
        self.world = _world(catalog, prices, difficulty, {k: v for k, v in knobs.items() if v is not None})
        chosen = resolve_tasks(type(self), tasks, split, {"goals": goals})
        if chosen is None:
            chosen = _goals(self.world, goals, split)
        super().__init__(
            chosen,
            max_turns=max_turns,
            render_mode=render_mode,
            invalid_action=invalid_action,
            anchor=anchor,
            max_observation_length=_LONGEST_HTML if self.observation is Observation.HTML else _LONGEST,
        )

    @property
    def session(self) -> Session:
        """The visit that is going on.

        Raises:
            ResetNeeded: `reset` has not been called.
        """
        if self._session is None:
            raise ResetNeeded("call reset() first: nobody is in the shop")
        return self._session

    def _begin(self, task: Task) -> str:
        self._session = None  # a reset that fails must not leave the previous visit to go on
        goal = Goal.from_record(task.record)
        shop = self.world.shop(**self._rules)
        self._session = Session(shop, goal, str(goal.index) if goal.index >= 0 else "custom")
        self._purchase = None
        return self._observe()

    def _observe(self) -> str:
        """Return the observation of the current page, and keep its text without the goal."""
        session = self.session
        page = session.page()
        if page is not self._shown:
            self._shown = page
            self._text = text_without_goal(page)
        return self._cut(self._page_text(page))

    def _page_text(self, page: Page) -> str:
        session = self.session
        if self.observation is Observation.TEXT:
            return with_goal(page, self._text)
        if self.observation is Observation.TEXT_RICH:
            return rich_text(page, session.shop.compat)
        if self.observation is Observation.URL:
            return page_url(page, session.name)
        from agent_gym.envs.webshop.site.markup import render

        return render(page, session.name)

    def _cut(self, text: str) -> str:
        """Return a text that the observation space holds, whatever the catalogue and the query are."""
        most: int = self.observation_space.max_length  # type: ignore[attr-defined]
        return text if len(text) <= most else text[: most - len(_CUT)] + _CUT

    def _act(self, action: str) -> Outcome:
        session = self.session
        accepted = session.act(action)
        if not session.done or session.reward is None:
            return Outcome(self._observe() if accepted else self._observation, valid=accepted)
        parts = session.reward
        success = parts.score == 1.0
        extras = {f"webshop/{name}": value for name, value in parts.verbose().items()}
        return Outcome(
            self._observe(),
            reward=self._scaled(parts.score),
            success=success,
            ended=True,
            score=parts.score,
            extras=extras,
        )

    def _scaled(self, score: float) -> float:
        """Return the reward of a purchase with this score."""
        if self.reward_scale is RewardScale.SUCCESS:
            return _SUCCESS_REWARD if score == 1.0 else 0.0
        return score

    def _reject(self, reason: str) -> str:
        return self._observation  # as for actions that the page does not know: the same page again

    def _situation(self) -> Situation:
        session = self.session
        page = session.page()
        shown: str | None = None
        if self.observation is Observation.TEXT:
            shown = self._text
        elif self.observation is Observation.TEXT_RICH:
            shown = rich_text(page, session.shop.compat, goal=False)
        templates = (SEARCH_TEMPLATE,) if session.has_search_box else ()
        shown = None if shown is None else self._cut(shown)
        return Situation(state_text(page, self._text), session.admissible(), templates, shown)

    def _extras(self) -> dict[str, Any]:
        session = self.session
        return {
            "webshop/page": session.kind.value,
            "webshop/options": tuple([f"{axis}: {value}" for axis, value in session.selected.items()]),
            "webshop/goal_index": session.goal.index,
            "webshop/nouns": session.shop.nouns.origin.value,
        }

    def _goal(self) -> str:
        return self.session.goal.instruction_text

    def world_digest(self) -> str:
        """Return a hash of the catalogue and its prices."""
        return self.world.digest()

    def canonical_action(self, text: str) -> str:
        """Put the name of an action in lower case and drop blanks before its bracket."""
        name, bracket, rest = text.partition("[")
        return f"{name.strip().lower()}{bracket}{rest}" if bracket else text

    def oracle_action(self) -> str:
        """Return the next action of the buyer of the goal's own product.

        Raises:
            ResetNeeded: No episode is running.
            AgentGymError: The catalogue does not have the product, or no query finds it.
        """
        self._require_running()
        session = self.session
        if self._purchase is None:
            self._purchase = plan(session.shop, session.goal)
        if self._purchase is None:
            raise AgentGymError(
                f"task {self.task.id!r}: product {session.goal.asin!r} is not in this catalogue, or no query finds "
                "it"
            )
        return next_action(session, self._purchase)

    def task_from_record(self, record: Any) -> Task:
        """Return the task of a goal as the original makes it (`Goal.to_record`).

        Raises:
            DataError: The record is no goal.
        """
        goal = Goal.from_record(record)
        return Task("custom", goal.category or goal.kind.value, "custom", goal.to_record())

    def render(self) -> str | None:
        """Return the page as text ("ansi")."""
        if self.render_mode != "ansi":
            return None
        return rich_text(self.session.page(), Compat.FIXED)


def _goals(world: ShopWorld, goals: str | None, split: str | None) -> GoalTasks:
    """Return the goals that the arguments name."""
    kind = check_choice("goals", GoalKind, GoalKind.HUMAN if goals is None else goals)
    return GoalTasks(world, kind, "train" if split is None else split)


def _world(
    catalog: str | Path, prices: str | Path | None, difficulty: str | None, knobs: Mapping[str, Any]
) -> ShopWorld:
    """Return the world that the arguments name; raises ConfigError where they contradict each other."""
    if catalog != GENERATED and (difficulty is not None or knobs):
        names = [*(["difficulty"] if difficulty is not None else []), *knobs]
        raise ConfigError(
            f"{', '.join(names)} describe a generated catalogue, but catalog= names another; drop one"
        )
    return ShopWorld.find(catalog, shop_spec("standard" if difficulty is None else difficulty, knobs), prices)
