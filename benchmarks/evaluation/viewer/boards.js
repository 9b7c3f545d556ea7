// Draws a Sokoban board from its text, in letters or in XSB notation.
const Boards = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const LETTERS = { "#": "wall", "_": "floor", "O": "goal", "X": "box", "√": "box goal", "P": "player", "S": "player goal" };
  const XSB = { "#": "wall", " ": "floor", "-": "floor", ".": "goal", "$": "box", "*": "box goal", "@": "player", "+": "player goal" };

  // The rows of the board in an observation, or null when there is none.
  function rows(text, notation) {
    const known = notation === "xsb" ? XSB : LETTERS;
    let best = [], run = [];
    for (const line of [...text.split("\n"), ""]) {
      const trimmed = line.replace(/\s+$/, "");
      if (trimmed.length > 2 && trimmed.includes("#") && [...trimmed].every((sign) => sign in known)) run.push(trimmed);
      else { if (run.length > best.length) best = run; run = []; }
    }
    return best.length > 2 ? best : null;
  }

  function element(name, attributes, parent) {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    parent.appendChild(made);
    return made;
  }

  // An SVG of the board, or null when the text holds none.
  function draw(text, notation) {
    const found = rows(text, notation);
    if (!found) return null;
    const known = notation === "xsb" ? XSB : LETTERS;
    const width = Math.max(...found.map((row) => [...row].length)), size = width > 14 ? 16 : 24;
    const svg = document.createElementNS(NS, "svg");
    for (const [key, value] of Object.entries({ class: "board-svg", role: "img", width: width * size, height: found.length * size, viewBox: `0 0 ${width * 10} ${found.length * 10}` }))
      svg.setAttribute(key, value);
    svg.setAttribute("aria-label", found.join("\n"));
    found.forEach((row, y) => [...row].forEach((sign, x) => {
      const kind = known[sign], left = x * 10, top = y * 10;
      if (kind === "wall") { element("rect", { x: left, y: top, width: 10.2, height: 10.2, fill: "var(--wall)" }, svg); return; }
      element("rect", { x: left, y: top, width: 10.2, height: 10.2, fill: "var(--floor)" }, svg);
      if (kind.includes("goal")) element("circle", { cx: left + 5, cy: top + 5, r: kind === "goal" ? 2.2 : 4.4, fill: "none", stroke: "var(--goal)", "stroke-width": 1.3 }, svg);
      if (kind.includes("box")) {
        const done = kind.includes("goal") ? "done" : "box";
        element("rect", { x: left + 1.4, y: top + 1.4, width: 7.2, height: 7.2, rx: 1, fill: `var(--${done})`, stroke: `var(--${done}-line)`, "stroke-width": 0.8 }, svg);
        element("path", { d: `M${left + 2.6} ${top + 2.6}l4.8 4.8m0 -4.8l-4.8 4.8`, stroke: `var(--${done}-line)`, "stroke-width": 0.8 }, svg);
      }
      if (kind.includes("player")) {
        element("circle", { cx: left + 5, cy: top + 3.4, r: 1.7, fill: "var(--player)" }, svg);
        element("path", { d: `M${left + 2.4} ${top + 8.8}a2.6 3.4 0 0 1 5.2 0z`, fill: "var(--player)" }, svg);
      }
    }));
    return svg;
  }

  return { draw, rows };
})();
