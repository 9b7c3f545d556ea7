// Draws the curves of the page as SVG at the size they are shown, and again when that changes.
(() => {
  const runs = JSON.parse(document.getElementById("data").textContent).runs;
  const several = runs.length > 1;
  const NS = "http://www.w3.org/2000/svg";
  const DASHES = ["", "5 3", "1.5 3"];
  const HEIGHT = 170, LEFT = 44, RIGHT = 10, TOP = 8, BOTTOM = 22;

  function element(name, attributes, parent) {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  }

  function show(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("e+", "e");
    return String(Number(value.toPrecision(3))).replace("-", "−");
  }

  function niceTicks(low, high, count) {
    const raw = (high - low) / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= raw);
    const ticks = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) ticks.push(Math.abs(at) < step * 1e-9 ? 0 : at);
    return ticks;
  }

  function wholeTicks(low, high, count) {
    const [first, second] = niceTicks(low, high, count), step = Math.max(1, Math.ceil((second || first + 1) - first - 1e-9)), ticks = [];
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
    return ticks;
  }

  function logTicks(low, high) {
    if (high < 6 * low) return niceTicks(low, high, 4);
    const ticks = [], from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((to - from) / 5)), factors = to - from <= 2 ? [1, 2, 5] : [1];
    for (let power = from; power <= to; power += every)
      for (const factor of factors) {
        const at = factor * Math.pow(10, power);
        if (at >= low * 0.999 && at <= high * 1.001) ticks.push(at);
      }
    return ticks;
  }

  function extent(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) if (value !== null && value !== undefined) { low = Math.min(low, value); high = Math.max(high, value); }
    return [low, high];
  }

  // The vertical range of a chart, with some air, for one of the scales.
  function range(values, scale) {
    if (scale === "log") {
      const [low, high] = extent(values.filter((v) => v > 0));
      if (low === Infinity) return [0.1, 1];
      return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
    }
    let [low, high] = extent(values);
    if (low === Infinity) return [0, 1];
    if (scale === "share") {
      const top = [0.1, 0.2, 0.5].find((value) => high <= value * 0.98);
      return [0, high > 1 ? high * 1.05 : top || 1];
    }
    if (low > 0 && low < 0.5 * high) low = 0;
    if (low === high) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
    const air = (high - low) * 0.06;
    return [low === 0 ? 0 : low - air, high + air];
  }

  // Axes, grid and the mapping from values to places.
  function frame(figure, xs, ys, scale, height, label, left) {
    const width = Math.max(180, figure.clientWidth - 20), start = left || LEFT;
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label }, figure);
    let [x0, x1] = xs;
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    const [y0, y1] = ys, log = scale === "log";
    const map = log ? Math.log10 : (value) => value;
    const x = (value) => start + ((value - x0) / (x1 - x0)) * (width - start - RIGHT);
    const y = (value) => height - BOTTOM - ((map(value) - map(y0)) / (map(y1) - map(y0))) * (height - BOTTOM - TOP);
    for (const at of scale === "lanes" ? [] : log ? logTicks(y0, y1) : niceTicks(y0, y1, 4)) {
      element("line", { x1: start, x2: width - RIGHT, y1: y(at), y2: y(at), class: "gridline" }, svg);
      element("text", { x: start - 6, y: y(at) + 4, "text-anchor": "end" }, svg).textContent = show(at);
    }
    element("line", { x1: start, x2: width - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM, class: "axis" }, svg);
    for (const at of wholeTicks(x0, x1, Math.max(2, Math.floor(width / 60))))
      element("text", { x: x(at), y: height - 7, "text-anchor": "middle" }, svg).textContent = show(at);
    return { svg, x, y, width, height, start };
  }

  function path(points) {
    let text = "", open = false;
    for (const point of points) {
      if (point === null) { open = false; continue; }
      text += `${open ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
      open = true;
    }
    return text;
  }

  // Runs of indices without a gap.
  function spans(count, whole) {
    const found = [];
    let from = null;
    for (let i = 0; i <= count; i++) {
      const on = i < count && whole(i);
      if (on && from === null) from = i;
      if (!on && from !== null) { found.push([from, i - 1]); from = null; }
    }
    return found;
  }

  function onsets(place, figure) {
    runs.forEach((run) => {
      const seen = new Set();
      for (const [iteration] of run.onsets) {
        if (seen.has(iteration)) continue;
        seen.add(iteration);
        if (!several) element("line", { x1: place.x(iteration), x2: place.x(iteration), y1: TOP, y2: place.height - BOTTOM, class: "onset" }, place.svg);
      }
    });
  }

  function legend(figure, entries) {
    const list = document.createElement("ul");
    list.className = "legend";
    for (const { label, color, dash, point } of entries) {
      const item = document.createElement("li"), mark = element("svg", { viewBox: "0 0 20 8" });
      element("line", { x1: 0, x2: 20, y1: 4, y2: 4, style: `stroke:${color};stroke-width:2;stroke-dasharray:${dash || "none"}` }, mark);
      if (point) element("circle", { cx: 10, cy: 4, r: 3, style: `fill:${color}` }, mark);
      item.append(mark, label);
      list.appendChild(item);
    }
    figure.appendChild(list);
  }

  // A line under the pointer and a box with the values there.
  function hover(figure, place, xs, lines) {
    let tip = null, cursor = null;
    const leave = () => { if (tip) { tip.remove(); cursor.remove(); tip = cursor = null; } };
    place.svg.addEventListener("pointerleave", leave);
    place.svg.addEventListener("pointermove", (event) => {
      const box = place.svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * place.width;
      let best = null;
      for (const value of xs) if (best === null || Math.abs(place.x(value) - at) < Math.abs(place.x(best) - at)) best = value;
      if (best === null) return;
      const rows = lines(best).filter((row) => row.value !== null && row.value !== undefined);
      if (!tip) {
        tip = document.createElement("div");
        tip.className = "tip";
        figure.appendChild(tip);
        cursor = element("line", { y1: TOP, y2: place.height - BOTTOM, class: "cursor" }, place.svg);
      }
      cursor.setAttribute("x1", place.x(best));
      cursor.setAttribute("x2", place.x(best));
      tip.replaceChildren();
      const head = document.createElement("span");
      head.className = "range";
      head.textContent = `iteration ${best}`;
      tip.appendChild(head);
      for (const row of rows) {
        const line = document.createElement("div"), name = document.createElement("span"), value = document.createElement("b");
        if (row.color) { const mark = document.createElement("i"); mark.style.background = row.color; name.appendChild(mark); }
        name.append(row.label);
        value.textContent = typeof row.value === "number" ? show(row.value) : row.value;
        line.append(name, value);
        tip.appendChild(line);
      }
      const inside = event.clientX - figure.getBoundingClientRect().left, beside = inside + 14 + tip.offsetWidth > figure.clientWidth;
      tip.style.left = `${Math.max(4, beside ? inside - tip.offsetWidth - 14 : inside + 14)}px`;
      tip.style.top = `${place.svg.offsetTop + 8}px`;
    });
  }

  function allX() {
    const xs = new Set();
    for (const run of runs) for (const at of run.x) xs.add(at);
    return [...xs].sort((a, b) => a - b);
  }

  function drawLines(figure) {
    const metrics = JSON.parse(figure.dataset.lines), labels = JSON.parse(figure.dataset.labels), points = JSON.parse(figure.dataset.points);
    const scale = figure.dataset.scale, lines = [];
    runs.forEach((run, r) => metrics.forEach((metric, m) => {
      const values = run.y[metric];
      if (!values || values.every((value) => value === null)) return;
      lines.push({ run, values, metric: m, color: `var(--c${several ? r : m})`, dash: several ? DASHES[m % 3] : "", label: several ? (metrics.length > 1 ? `${run.name}, ${labels[m]}` : run.name) : labels[m], point: points[m] });
    }));
    const xs = allX(), all = lines.flatMap((line) => line.values);
    const title = figure.querySelector("b").textContent;
    const place = frame(figure, extent(xs), range(all, scale), scale, HEIGHT, title);
    onsets(place, figure);
    for (const line of lines) {
      const ok = (value) => value !== null && (scale !== "log" || value > 0);
      const spots = line.values.map((value, i) => (ok(value) ? [place.x(line.run.x[i]), place.y(value)] : null));
      const shown = line.point ? spots.filter((spot) => spot !== null) : spots;
      element("path", { d: path(shown), fill: "none", style: `stroke:${line.color};stroke-width:1.7;stroke-linejoin:round;stroke-dasharray:${line.dash || "none"}` }, place.svg);
      if (line.point || shown.filter((spot) => spot !== null).length < 2)
        for (const spot of shown) if (spot) element("circle", { cx: spot[0], cy: spot[1], r: 3, style: `fill:${line.color}` }, place.svg);
    }
    if (!several && lines.length > 1) legend(figure, lines);
    const used = metrics.map((_, m) => m).filter((m) => lines.some((line) => line.metric === m));
    if (several && used.length > 1) legend(figure, used.map((m) => ({ label: labels[m], color: "var(--soft)", dash: DASHES[m % 3], point: points[m] })));
    hover(figure, place, xs, (at) => lines.map((line) => ({ label: line.label, color: line.color, value: line.values[line.run.x.indexOf(at)] })));
  }

  function drawFan(figure) {
    const number = Number(figure.dataset.run), run = runs[number], sign = figure.dataset.sign;
    const marks = JSON.parse(figure.dataset.quantiles), color = several ? `var(--c${number})` : sign === "positive" ? "var(--c0)" : "var(--c1)";
    const clamp = (value) => (value === null || value === undefined ? null : Math.min(1e3, Math.max(1e-3, value)));
    const columns = marks.map((q) => (run.y[`ratio/${sign}_p${String(q).padStart(2, "0")}`] || run.x.map(() => null)).map(clamp));
    const values = runs.flatMap((other) => RATIOS(other, marks)).map(clamp);
    const place = frame(figure, extent(allX()), range([...values, 0.8, 1.25], "log"), "log", HEIGHT, `Ratio quantiles, ${sign} advantage, ${run.name}`);
    onsets(place, figure);
    for (const bound of [1, ...run.band]) if (bound > 1e-3) {
      const at = place.y(bound);
      if (at > TOP && at < place.height - BOTTOM) element("line", { x1: place.start, x2: place.width - RIGHT, y1: at, y2: at, class: bound === 1 ? "axis" : "one" }, place.svg);
    }
    const whole = (i) => columns.every((column) => column[i] !== null);
    for (const [from, to] of spans(run.x.length, whole)) {
      for (const [low, high, opacity] of [[0, 4, 0.16], [1, 3, 0.3]]) {
        const up = [], down = [];
        for (let i = from; i <= to; i++) { up.push([place.x(run.x[i]), place.y(columns[high][i])]); down.unshift([place.x(run.x[i]), place.y(columns[low][i])]); }
        if (from === to) { const half = 3; up.unshift([up[0][0] - half, up[0][1]]); up[1][0] += half; down.unshift([down[0][0] + half, down[0][1]]); down[1][0] -= half; }
        element("path", { d: path([...up, ...down]) + "Z", style: `fill:${color};fill-opacity:${opacity}` }, place.svg);
      }
    }
    element("path", { d: path(columns[2].map((value, i) => (value === null ? null : [place.x(run.x[i]), place.y(value)]))), fill: "none", style: `stroke:${color};stroke-width:1.8` }, place.svg);
    hover(figure, place, run.x, (at) => marks.map((q) => ({ label: `${q} %`, value: (run.y[`ratio/${sign}_p${String(q).padStart(2, "0")}`] || [])[run.x.indexOf(at)] })).reverse());
  }

  function RATIOS(run, marks) {
    return ["positive", "negative"].flatMap((sign) => marks.flatMap((q) => run.y[`ratio/${sign}_p${String(q).padStart(2, "0")}`] || []));
  }

  function drawStack(figure) {
    const run = runs[Number(figure.dataset.run)], metrics = JSON.parse(figure.dataset.lines), labels = JSON.parse(figure.dataset.labels);
    const columns = metrics.map((metric) => run.y[metric] || run.x.map(() => null));
    const place = frame(figure, extent(allX()), [0, 1], "share", HEIGHT + 40, `Shares of the KL, ${run.name}`);
    const whole = (i) => columns.every((column) => column[i] !== null);
    for (const [from, to] of spans(run.x.length, whole)) {
      const base = new Array(to - from + 1).fill(0);
      columns.forEach((column, number) => {
        const up = [], down = [];
        for (let i = from; i <= to; i++) {
          const at = place.x(run.x[i]);
          down.unshift([at, place.y(base[i - from])]);
          base[i - from] += column[i];
          up.push([at, place.y(base[i - from])]);
        }
        if (from === to) { up.push([up[0][0] + 3, up[0][1]]); up[0] = [up[0][0] - 3, up[0][1]]; down.unshift([down[0][0] + 3, down[0][1]]); down[1] = [down[1][0] - 3, down[1][1]]; }
        element("path", { d: path([...up, ...down]) + "Z", style: `fill:var(--k${number});stroke:var(--card);stroke-width:.6` }, place.svg);
      });
    }
    onsets(place, figure);
    hover(figure, place, run.x, (at) => metrics.map((metric, i) => ({ label: labels[i], color: `var(--k${i})`, value: (run.y[metric] || [])[run.x.indexOf(at)] })).reverse());
  }

  function drawLanes(figure) {
    const run = runs[Number(figure.dataset.run)], names = Object.keys(run.holding), xs = allX();
    if (!names.length) return;
    const height = names.length * 24 + BOTTOM + TOP, left = 130;
    const place = frame(figure, extent(xs), [0, names.length], "lanes", height, `Warnings of ${run.name}`, left);
    const step = xs.length > 1 ? Math.max(3, (place.width - left - RIGHT) / Math.max(1, xs[xs.length - 1] - xs[0])) : 12;
    names.forEach((name, lane) => {
      const y = TOP + lane * 24;
      element("text", { x: left - 10, y: y + 15, "text-anchor": "end" }, place.svg).textContent = name.replaceAll("_", " ");
      element("line", { x1: left, x2: place.width - RIGHT, y1: y + 11, y2: y + 11, class: "gridline" }, place.svg);
      const bad = name === "ratio_collapse" || name === "success_collapse" ? "var(--bad)" : "var(--warn)";
      for (const at of run.holding[name]) {
        const from = Math.max(left, place.x(at) - step / 2), to = Math.min(place.width - RIGHT, place.x(at) + step / 2);
        element("rect", { x: from, y: y + 4, width: Math.max(2, to - from - 1), height: 14, rx: 2, style: `fill:${bad}` }, place.svg);
      }
    });
    hover(figure, place, run.x, (at) => names.filter((name) => run.holding[name].includes(at)).map((name) => ({ label: name.replaceAll("_", " "), value: "holds" })));
  }

  const DRAW = { lines: drawLines, fan: drawFan, stack: drawStack, lanes: drawLanes };
  function draw(figure) {
    for (const old of figure.querySelectorAll(":scope > svg, :scope > .legend, :scope > .tip")) old.remove();
    if (allX().length) DRAW[figure.dataset.kind](figure);
    figure.dataset.width = figure.clientWidth;
  }
  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) if (Number(target.dataset.width) !== target.clientWidth) draw(target);
  });
  for (const figure of document.querySelectorAll(".chart")) { draw(figure); watcher.observe(figure); }
})();
