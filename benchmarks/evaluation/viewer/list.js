// The list of episodes with its filters. Episodes lie packed in blocks, which are opened only when needed.
(async () => {
  const ROW = 58, BLOCK_CACHE = 12;
  const { make, add, words, signed } = Show;
  const get = (id) => document.getElementById(id);
  if (typeof DecompressionStream === "undefined") { get("unsupported").hidden = false; return; }

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(get(id).textContent), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const { rows, files } = JSON.parse(await unpack("index"));
  const size = Number(get("list").dataset.block);
  const cache = new Map();

  async function block(number) {
    if (!cache.has(number)) {
      cache.set(number, unpack(`block${number}`).then(JSON.parse));
      if (cache.size > BLOCK_CACHE) cache.delete(cache.keys().next().value);
    }
    return cache.get(number);
  }

  async function episode(number) { return (await block(Math.floor(number / size)))[number % size]; }

  // Filters ------------------------------------------------------------------------------------------------

  function fill(id, values, label) {
    const select = get(id), known = [...new Set(values)].sort();
    select.appendChild(new Option("all", ""));
    for (const value of known) select.appendChild(new Option(label ? label(value) : value === "" ? "(none)" : value, `=${value}`));
    select.parentElement.hidden = known.length < 2;
  }
  fill("f-env", rows.map((row) => row.env), (value) => value.split("/").pop());
  fill("f-type", rows.map((row) => row.type));
  fill("f-stop", rows.map((row) => row.stop), words);
  fill("f-split", rows.map((row) => row.split));
  fill("f-file", rows.map((row) => row.file), (value) => files[value]);
  if (!rows.some((row) => row.entropy !== null)) get("sort").querySelector("[value='-entropy']").remove();

  const list = get("list"), tall = get("tall"), place = get("episode");
  let shown = [], current = -1, query = "", found = null, searches = 0, colour = "";

  function chosen(row) {
    const is = (id, value) => { const want = get(id).value; return want === "" || want === `=${value}`; };
    const flag = (id, value) => { const want = get(id).value; return want === "" || (want === "1") === value; };
    return is("f-env", row.env) && is("f-type", row.type) && is("f-stop", row.stop) && is("f-split", row.split) && is("f-file", row.file)
      && flag("f-won", row.won) && flag("f-bad", row.bad > 0);
  }

  function inRow(row) { return [row.task, row.type, row.goal, row.env, row.stop].some((text) => text.toLowerCase().includes(query)); }

  function refresh(keep) {
    shown = rows.map((_, number) => number).filter((number) => chosen(rows[number]) && (!query || inRow(rows[number]) || (found && found.has(number))));
    const order = get("sort").value;
    if (order) {
      const sign = order.startsWith("-") ? -1 : 1, key = order.replace("-", "");
      shown.sort((a, b) => sign * ((rows[a][key] ?? -Infinity) - (rows[b][key] ?? -Infinity)) || a - b);
    }
    tall.style.height = `${shown.length * ROW}px`;
    if (!keep) list.scrollTop = 0;
    count("");
    draw();
  }

  function count(more) {
    const won = shown.filter((number) => rows[number].won).length, turns = shown.reduce((sum, number) => sum + rows[number].turns, 0);
    const facts = shown.length ? `, ${(100 * won / shown.length).toFixed(1)} % solved, ${(turns / shown.length).toFixed(1)} turns on average` : "";
    get("count").textContent = `${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} episodes${facts}${more}`;
  }

  // The list draws only what is in sight.
  function draw() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4), last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 9);
    const items = [];
    for (let at = first; at < last; at++) {
      const number = shown[at], row = rows[number], item = make("div", number === current ? "item now" : "item");
      item.style.top = `${at * ROW}px`;
      item.dataset.number = number;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(number === current));
      add(item, add(make("div"), make("span", `badge ${row.won ? "good" : "bad"}`, row.won ? "success" : words(row.stop)), make("span", "task", row.task)),
        add(make("div", "line"), make("span", "", `${row.env.split("/").pop()}${row.type ? ` · ${row.type}` : ""}`), make("span", "", `${row.turns} turns`),
          row.bad ? make("span", "down", `${row.bad} invalid`) : null, make("span", "", signed(row.reward))));
      items.push(item);
    }
    tall.replaceChildren(...items);
  }

  function texts(whole) {
    const turns = whole.turns.flatMap((turn) => [turn.seen, turn.reply, turn.thought, turn.action, turn.reason]);
    return [whole.goal, whole.final, ...turns].filter((text) => typeof text === "string");
  }

  // Texts are searched block by block, so that the page goes on answering.
  async function search() {
    const mine = ++searches;
    query = get("search").value.trim().toLowerCase();
    found = query ? new Set() : null;
    refresh();
    if (!query) { reread(); return; }
    const inJson = JSON.stringify(query).slice(1, -1), blocks = Math.ceil(rows.length / size);
    for (let number = 0; number < blocks; number++) {
      const text = await unpack(`block${number}`);
      if (mine !== searches) return;
      if (text.toLowerCase().includes(inJson))
        JSON.parse(text).forEach((whole, place) => { if (texts(whole).some((part) => part.toLowerCase().includes(query))) found.add(number * size + place); });
      if (number % 8 === 7) { refresh(true); count(`; searching, ${Math.round(100 * (number + 1) / blocks)} %`); await new Promise((go) => setTimeout(go)); }
    }
    if (mine === searches) { refresh(true); reread(); }
  }

  // One episode --------------------------------------------------------------------------------------------

  function controls() {
    const bar = make("div", "bar-top"), at = shown.indexOf(current);
    const button = (id, text, go, usable) => { const made = make("button", "step", text); made.type = "button"; made.id = id; made.disabled = !usable; made.addEventListener("click", go); return made; };
    const back = button("back", "← all episodes", () => { document.body.classList.remove("reading"); draw(); }, true);
    add(bar, back, button("before", "previous", () => open(shown[at - 1]), at > 0), button("after", "next", () => open(shown[at + 1]), at >= 0 && at + 1 < shown.length));
    bar.appendChild(make("span", "small", at < 0 ? "" : `${at + 1} of ${shown.length}`));
    if (rows[current].colours.length) {
      const select = make("select");
      select.id = "colour";
      for (const [value, text] of [["", "nothing"], ["entropies", "entropy"], ["logprobs", "log-probability"]])
        if (!value || rows[current].colours.includes(value)) select.appendChild(new Option(text, value, false, value === colour));
      select.addEventListener("change", () => { colour = select.value; reread(); });
      bar.appendChild(add(make("label", "", "tokens by"), select, colour ? make("span", "scale") : null, colour ? make("span", "", "") : null));
    }
    return bar;
  }

  async function open(number, keep) {
    current = number;
    const whole = await episode(number);
    if (current !== number) return;
    const bar = controls();
    const top = Show.show(place, rows[number], whole, { query, colour, file: files[rows[number].file] }, bar);
    const scale = bar.querySelector(".scale + span");
    if (scale) scale.textContent = `0 to ${top.toFixed(2)} nats`;
    document.body.classList.add("reading");
    if (!keep) { history.replaceState(null, "", `#${number + 1}`); window.scrollTo(0, 0); }
    draw();
  }

  function reread() { if (current >= 0) { const y = window.scrollY, was = document.body.classList.contains("reading"); open(current, true).then(() => { document.body.classList.toggle("reading", was); window.scrollTo(0, y); }); } }

  function walk(step) {
    const at = shown.indexOf(current), next = shown[at < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, at + step))];
    if (next === undefined) return;
    open(next);
    const top = shown.indexOf(next) * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
  }

  let waiting = 0;
  get("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 200); });
  get("filters").addEventListener("submit", (event) => event.preventDefault());
  get("filters").addEventListener("change", (event) => { if (event.target.id !== "search") refresh(); });
  list.addEventListener("scroll", draw, { passive: true });
  list.addEventListener("click", (event) => { const item = event.target.closest(".item"); if (item) open(Number(item.dataset.number)); });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (step) { event.preventDefault(); walk(step); }
  });
  window.addEventListener("resize", draw);
  refresh();
  const asked = Number(location.hash.slice(1)) - 1;
  const narrow = matchMedia("(max-width: 760px)").matches;
  get("more").open = !narrow;
  if (asked >= 0 && asked < rows.length) await open(asked, true);
  else if (!narrow && shown.length) await open(shown[0], true);
  else place.appendChild(make("p", "empty", "Choose an episode."));
  document.body.dataset.ready = "yes";
})();
