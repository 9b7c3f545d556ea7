// Shows one episode. All texts are put in as text nodes: nothing an agent or a world says becomes markup.
const Show = (() => {
  function make(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined && text !== null) made.textContent = text;
    return made;
  }

  function add(parent, ...children) {
    for (const child of children) if (child) parent.appendChild(child);
    return parent;
  }

  function signed(value) { return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2); }
  function words(name) { return String(name).replaceAll("_", " "); }

  // A text with the places marked where the search was found.
  function marked(parent, text, query) {
    if (!query) { parent.textContent = text; return parent; }
    const lower = text.toLowerCase();
    let from = 0;
    for (let at = lower.indexOf(query); at >= 0 && lower.length === text.length; at = lower.indexOf(query, from)) {
      parent.append(text.slice(from, at));
      parent.appendChild(make("mark", "hit", text.slice(at, at + query.length)));
      from = at + query.length;
    }
    parent.append(text.slice(from));
    return parent;
  }

  // A shop page as text: a line for each element, buttons as such.
  function shopPage(text, query) {
    const pre = make("pre", "seen");
    const lines = text.includes(" [SEP] ") ? text.split(" [SEP] ") : text.split("\n");
    for (const line of lines) {
      const button = /^\s*\[(clicked )?button\] (.*) \[(clicked )?button_\]\s*$/.exec(line);
      const row = make("span", "page-line");
      if (button) row.appendChild(marked(make("span", "chip"), (button[1] ? "✓ " : "") + button[2], query));
      else marked(row, line, query);
      pre.appendChild(row);
    }
    return pre;
  }

  function observation(text, row, kwargs, query) {
    if (/soko|boxo/i.test(row.env)) {
      const svg = Boards.draw(text, kwargs.symbols || "letters");
      if (svg) {
        const holder = make("div");
        const details = add(make("details"), make("summary", "small", "as text"), marked(make("pre", "seen"), text, query));
        return add(holder, svg, details);
      }
    }
    if (/webshop/i.test(row.env) && !/html/.test(kwargs.observation || "")) return shopPage(text, query);
    return marked(make("pre", "seen"), text, query);
  }

  // The reply; tokens coloured by what was asked for, as marks where their texts are not known.
  function reply(turn, colour, top, query) {
    const pre = make("pre", "said");
    const values = colour ? turn[colour] : null;
    if (!values || !values.length) return marked(pre, turn.reply, query);
    const texts = turn.tokens && turn.tokens.length === values.length ? turn.tokens : null;
    if (!texts) pre.append(turn.reply + "\n");
    values.forEach((value, place) => {
      const strength = Math.min(1, Math.abs(value) / top);
      const span = make("span", texts ? "token" : "mark", texts ? texts[place] : null);
      span.style.background = `color-mix(in srgb, var(--heat) ${Math.round(100 * strength)}%, transparent)`;
      const entropy = turn.entropies && turn.entropies[place], logprob = turn.logprobs && turn.logprobs[place];
      span.title = [`token ${place + 1}`, entropy === undefined ? "" : `entropy ${entropy} nats`,
        logprob === undefined ? "" : `log-probability ${logprob}`].filter(Boolean).join(", ");
      pre.appendChild(span);
    });
    return pre;
  }

  function prompt(turn, query) {
    if (!turn.prompt || !turn.prompt.length) return null;
    const details = make("details", "prompt");
    details.appendChild(make("summary", "", `prompt: ${turn.prompt.map((part) => part[0]).join(", ")}`));
    for (const [name, text] of turn.prompt) {
      const part = make("div", `segment ${name === "goal" ? "goal-part" : name.replace(/[^a-z]/g, "-")}`);
      add(part, make("h4", "", name), marked(make("pre"), text, query));
      details.appendChild(part);
    }
    return details;
  }

  function turnCard(turn, number, row, kwargs, colour, top, query) {
    const card = make("section", "turn");
    card.id = `turn${number}`;
    const facts = make("div", "top");
    add(facts, make("b", "", `Turn ${number}`), make("span", turn.reward < 0 ? "down" : turn.reward > 0 ? "up" : "", `reward ${signed(turn.reward)}`));
    if (turn.format === false) facts.appendChild(make("span", "badge bad", "invalid format"));
    if (turn.valid === false) facts.appendChild(make("span", "badge warn", "action not accepted"));
    if (turn.finish) facts.appendChild(make("span", "badge warn", `reply ended by ${words(turn.finish)}`));
    if (turn.said) facts.appendChild(make("span", "", `${turn.said} tokens after ${turn.read || "?"}`));
    if (turn.seconds >= 0.01) facts.appendChild(make("span", "", `${turn.seconds.toFixed(2)} s`));
    const seen = make("div"), done = make("div"), shown = observation(turn.seen, row, kwargs, query);
    add(seen, make("h4", "", "observation"), shown);
    if (turn.anchor) add(seen, add(make("details"), make("summary", "small", "anchor state"), marked(make("pre"), turn.anchor, query)));
    add(done, make("h4", "", "reply"), reply(turn, colour, top, query));
    if (turn.thought) add(done, make("h4", "", "thought"), marked(make("pre", "thought"), turn.thought, query));
    add(done, make("h4", "", "action"));
    if (turn.action === null || turn.action === undefined) done.appendChild(make("span", "action none", `none${turn.reason ? `: ${turn.reason}` : ""}`));
    else {
      done.appendChild(marked(make("code", "action"), turn.action, query));
      if (turn.reason) done.appendChild(make("span", "small none", turn.reason));
    }
    const board = shown.querySelector && shown.querySelector("svg");
    return add(card, facts, prompt(turn, query), add(make("div", board ? "two board" : "two"), seen, done));
  }

  function settings(row, episode, file) {
    const list = make("dl");
    const facts = {
      environment: row.env, arguments: episode.kwargs ? JSON.stringify(episode.kwargs) : "", split: row.split, type: row.type,
      seed: episode.seed, group: episode.group, policy: episode.policy, started: episode.started, recorded: episode.package && `agent-gym ${episode.package}`, file,
    };
    for (const [name, value] of Object.entries(facts))
      if (value !== undefined && value !== null && value !== "") add(list, make("dt", "", name), make("dd", "", String(value)));
    return add(make("details"), make("summary", "small", "about this episode"), list);
  }

  // Fills `place` with an episode. `controls` are the buttons above it.
  function show(place, row, episode, options, controls) {
    const kwargs = episode.kwargs || {}, query = options.query;
    const values = options.colour ? episode.turns.flatMap((turn) => turn[options.colour] || []).map(Math.abs).sort((a, b) => a - b) : [];
    const top = Math.max(values.length ? values[Math.floor(0.98 * (values.length - 1))] : 0, 0.25);
    place.replaceChildren(controls);
    const facts = make("p", "facts");
    add(facts, make("span", `badge ${row.won ? "good" : "bad"}`, row.won ? "success" : words(row.stop)), make("span", "", row.env.split("/").pop()),
      make("span", "", `${row.turns} turns`), make("span", "", `return ${signed(row.reward)}`), make("span", "", `score ${row.score.toFixed(2)}`));
    if (row.bad) facts.appendChild(make("span", "badge warn", `${row.bad} invalid turns`));
    add(place, make("h2", "", row.task), facts);
    if (episode.goal) add(place, add(make("p", "goal"), make("b", "", "Goal "), marked(make("span"), episode.goal, query)));
    add(place, settings(row, episode, options.file));
    if (episode.note) place.appendChild(make("p", "note", episode.note));
    episode.turns.forEach((turn, index) => place.appendChild(turnCard(turn, index + 1, row, kwargs, options.colour, top, query)));
    const end = make("section", "turn");
    add(end, add(make("div", "top"), make("b", "", "End"), make("span", "", `ended by ${words(row.stop)}`)), observation(episode.final || "", row, kwargs, query));
    place.appendChild(end);
    return top;
  }

  return { make, add, show, words, signed };
})();
