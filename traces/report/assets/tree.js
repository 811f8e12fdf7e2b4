// Lineage: a column a round, a line from each parent. Failures stay where they were made.

const COLUMN = 206,
  LABEL = 152,
  LINE = 24,
  TOP = 40;

function viewTree() {
  const places = placeTree();
  const width = places.columns * COLUMN + 60,
    height = TOP + places.lines * LINE + 16;
  const svg = s("svg", {
    class: "tree",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `lineage of ${RUN.rows.length} candidates`,
  });
  const path = bestPath();
  for (const [number, x] of places.rounds) {
    svg.append(
      s("text", { class: "title", x, y: 18 }, number ? `round ${number}` : "before"),
      s("line", { class: "grid", x1: x - 14, x2: x - 14, y1: 26, y2: height }),
    );
  }
  const edges = s("g", {}),
    nodes = s("g", {});
  for (const row of RUN.rows) {
    const to = places.of.get(row.id),
      from = places.of.get(row.parent);
    if (!from) continue;
    const bend = from.x + (LABEL + COLUMN) / 2;
    const isBest = path.has(row.id) && path.has(row.parent);
    // Lines begin behind the label of the parent.
    const end = to.x - 9,
      start = from.x + LABEL,
      label = Math.min(LABEL, 20 + 6.6 * labelOf(row.parent).length);
    edges.append(
      s("path", {
        class: "edge" + (isBest ? " best" : "") + (failed(row) ? " failed" : ""),
        "data-to": row.id,
        d:
          start < end
            ? `M${from.x + label},${from.y}H${start}C${bend},${from.y} ${bend},${to.y} ${end},${to.y}`
            : `M${from.x},${from.y}L${end},${to.y}`,
      }),
    );
  }
  for (const [id, place] of places.of) {
    const row = ROWS.get(id) ?? {
      id: "",
      kind: "improve",
      code: "",
      state: "its files are lost",
      summary: "",
    };
    const node = mark(row, place.x, place.y, 5.5);
    node.append(
      s(
        "text",
        { class: path.has(id) ? "strong" : "", x: 12, y: 4 },
        `${id} `,
        s("tspan", { class: "soft" }, labelOf(id).slice(id.length + 1)),
      ),
    );
    node.append(s("rect", { class: "target", x: -9, y: -LINE / 2, width: LABEL + 6, height: LINE }));
    nodes.append(node);
  }
  // What is thick lies above.
  edges.append(...edges.querySelectorAll(".best"));
  svg.append(edges, nodes);
  return [
    h("h2", {}, "Lineage"),
    legend(),
    h("p", { class: "note" }, "The thick line leads to the best kernel. ← parent, → child, ↑ ↓ neighbours."),
    h("div", { class: "scroll tall" }, pickable(svg)),
  ];
}

/** A candidate's id and result, short enough for its column. */
function labelOf(id) {
  const result = ROWS.has(id) ? resultOf(ROWS.get(id)) : "lost";
  return `${id} ${result.length > 15 ? result.slice(0, 14) + "…" : result}`;
}

/** Ids from the best kernel back to its first ancestor. */
function bestPath() {
  const found = new Set();
  for (let id = RUN.best; id && !found.has(id); id = ROWS.get(id)?.parent) found.add(id);
  return found;
}

/** Where every candidate stands: in its round's column, near its parent. */
function placeTree() {
  const ghosts = RUN.rows.filter((row) => row.parent && !ROWS.has(row.parent)).map((row) => row.parent);
  const columns = new Map();
  for (const id of new Set(ghosts)) column(columns, 0).push({ id, parent: null });
  for (const row of RUN.rows) column(columns, row.round).push(row);
  // Children of one round (the tuner's) stand in a column of their own.
  const of = new Map(),
    rounds = [];
  let x = 24,
    lines = 1;
  for (const number of [...columns.keys()].sort((a, b) => a - b)) {
    rounds.push([number, x]);
    const all = columns.get(number),
      inside = new Set(all.map((row) => row.id));
    for (const part of [
      all.filter((row) => !inside.has(row.parent)),
      all.filter((row) => inside.has(row.parent)),
    ]) {
      if (!part.length) continue;
      const near = part.map((row, index) => [of.get(row.parent)?.y ?? 0, index, row]);
      near.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      near.forEach(([, , row], index) => of.set(row.id, { x, y: TOP + index * LINE + LINE / 2 }));
      lines = Math.max(lines, part.length);
      x += COLUMN;
    }
  }
  return { of, rounds, lines, columns: (x - 24) / COLUMN };
}

function column(columns, number) {
  if (!columns.has(number)) columns.set(number, []);
  return columns.get(number);
}
