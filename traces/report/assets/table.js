// All candidates in a table that sorts and filters.

const COLUMNS = [
  ["id", "candidate", (row) => link(row.id), (row) => row.evaluation],
  ["kind", "made to", (row) => row.kind, (row) => row.kind],
  ["parent", "parent", (row) => link(row.parent), (row) => row.parent ?? ""],
  ["result", "verdict", (row) => row.code || row.state, (row) => row.code],
  ["speedup", `speed-up, ${TIME_WORD}`, (row) => times(row.speedup), (row) => row.speedup ?? -1],
  ["versus", "over parent", (row) => times(row.versus_parent), (row) => row.versus_parent ?? -1],
  ["limited", "limited by", (row) => row.limited_by.replaceAll("_", " "), (row) => row.limited_by],
  ["predicted", "predicted saving", (row) => us(row.predicted_us), (row) => row.predicted_us ?? -1],
  ["had", "had", (row) => us(row.had_us), (row) => row.had_us ?? -Infinity],
  ["seconds", "took", (row) => seconds(sumOf(row.seconds)), (row) => sumOf(row.seconds)],
  ["tokens", "tokens", (row) => (row.own_tokens ? tokens(row.own_tokens) : ""), (row) => row.own_tokens],
  [
    "idea",
    "idea, and why it failed",
    (row) =>
      failed(row)
        ? h(
            "div",
            { class: "short", title: `${row.summary}\n${row.idea}` },
            linked(row.summary),
            " ",
            h("span", { class: "soft" }, row.idea),
          )
        : h("div", { class: "short", title: row.idea || row.direction }, row.idea || row.direction),
    (row) => row.idea,
  ],
];
const FIGURES = new Set(["speedup", "versus", "predicted", "had", "seconds", "tokens"]);

const sumOf = (values) => Object.values(values).reduce((sum, one) => sum + (isNumber(one) ? one : 0), 0);

/** Rows that the filter lets through, in the order chosen. */
function shownRows() {
  const wanted = state.filter.toLowerCase();
  const rows = RUN.rows.filter(
    (row) =>
      !wanted ||
      [
        row.id,
        row.kind,
        row.code,
        row.state,
        row.limited_by,
        row.idea,
        row.direction,
        row.summary,
        row.outcome,
      ].some((one) => one.toLowerCase().includes(wanted)),
  );
  const [name, way] = state.sort.split(":");
  const found = COLUMNS.find(([key]) => key === name);
  if (!found) return rows;
  const value = found[3],
    sign = way === "down" ? -1 : 1;
  return rows.sort((a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
}

function viewTable() {
  const body = h("tbody", {});
  const count = h("span", { class: "note" });
  const refill = () => {
    const rows = shownRows();
    count.textContent = `${rows.length} of ${RUN.rows.length} candidates`;
    body.replaceChildren(
      ...rows.map((row) =>
        h(
          "tr",
          { "data-c": row.id, class: row.id === RUN.best ? "best" : failed(row) ? "failed" : "" },
          COLUMNS.map(([key, , cell]) => h("td", { class: FIGURES.has(key) ? "figure" : key }, cell(row))),
        ),
      ),
    );
    markSelected();
  };
  body.addEventListener("click", (event) => {
    const found = event.target.closest("tr");
    if (found) select(found.dataset.c);
  });
  const filter = h("input", {
    type: "search",
    id: "filter",
    value: state.filter,
    "aria-label": "filter",
    placeholder: "filter: a verdict, a bottleneck, an idea ( / )",
    oninput: (event) => {
      state.filter = event.target.value;
      writeState();
      refill();
    },
  });
  const [sorted, way] = state.sort.split(":");
  const head = COLUMNS.map(([key, name]) =>
    h(
      "th",
      {
        "aria-sort": key === sorted ? (way === "down" ? "descending" : "ascending") : null,
        class: FIGURES.has(key) ? "figure" : null,
      },
      h(
        "button",
        {
          type: "button",
          class: "plainly",
          onclick: () => {
            state.sort = `${key}:${key === sorted ? (way === "down" ? "up" : "down") : FIGURES.has(key) ? "down" : "up"}`;
            show();
          },
        },
        name,
        key === sorted ? (way === "down" ? " ↓" : " ↑") : "",
      ),
    ),
  );
  refill();
  return [
    h("h2", {}, "Candidates"),
    h("p", {}, filter, " ", count),
    h("div", { class: "scroll" }, h("table", { class: "rows" }, h("thead", {}, h("tr", {}, head)), body)),
  ];
}
