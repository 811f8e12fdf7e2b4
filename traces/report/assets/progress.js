// Overview: figures of the run, the best so far with every candidate as a dot, failures by kind.

const AXES = {
  evaluation: {
    key: "1",
    name: "evaluations",
    word: "candidates done",
    of: (one) => one.evaluation,
    whole: true,
  },
  round: { key: "2", name: "rounds", word: "round", of: (one) => one.round, whole: true },
  time: { key: "3", name: "time", word: "time at work (s)", of: (one) => one.done_s },
  cost: { key: "4", name: "cost", word: "spent on models (USD)", of: (one) => one.usd, only: "usd" },
  tokens: { key: "5", name: "tokens", word: "tokens in and out", of: (one) => one.tokens, only: "tokens" },
};

/** Whether a run has anything to show on an axis. */
const hasAxis = (run, axis) => !axis.only || run.rows.some((row) => row[axis.only] > 0);

function viewProgress() {
  const axis = AXES[state.x] && hasAxis(RUN, AXES[state.x]) ? AXES[state.x] : AXES.evaluation;
  return [
    h("div", { class: "cards" }, cards()),
    h(
      "section",
      {},
      h("h2", {}, "Best so far, every candidate a dot"),
      axisChoice(axis),
      progressPlot([{ run: RUN, kind: "own" }], axis, 940, 400),
      legend(),
      h(
        "p",
        { class: "note" },
        `Speed-ups are over the task's own baseline, times ${TIME_WORD}. The line is the ` +
          "kernel to beat after each round: it changes only where a choice says so. At the bottom: candidates without a time, each where it failed.",
      ),
    ),
    h(
      "div",
      { class: "columns" },
      h("section", {}, h("h2", {}, "What became of the candidates"), outcomes()),
      h("section", {}, h("h2", {}, "What limits the kernels that passed"), limits()),
    ),
    h("section", {}, h("h2", {}, "The run"), factTable(RUN.facts)),
  ];
}

function factTable(facts) {
  return h(
    "table",
    { class: "facts" },
    h(
      "tbody",
      {},
      facts.map(([label, text]) => h("tr", {}, h("th", { scope: "row" }, label), h("td", {}, linked(text)))),
    ),
  );
}

function cards() {
  const judged = RUN.rows.filter((row) => row.code);
  const right = judged.filter(passed).length;
  const card = (name, value, more) =>
    h(
      "div",
      { class: "card" },
      h("span", { class: "name" }, name),
      h("span", { class: "value" }, value),
      h("span", { class: "more" }, more),
    );
  const calls = RUN.spends.reduce((sum, one) => sum + one.calls, 0);
  const spent = RUN.spends.some((one) => one.usd === null)
    ? null
    : RUN.spends.reduce((sum, one) => sum + one.usd, 0);
  const used = RUN.spends.reduce((sum, one) => sum + one.input_tokens + one.output_tokens, 0);
  const own = RUN.shares.find((one) => one.name === "search itself");
  return [
    card(
      "best",
      RUN.speedup ? times(RUN.speedup) : "none",
      RUN.best ? [link(RUN.best), ` over the baseline, ${TIME_WORD}`] : RUN.result,
    ),
    card("candidates", String(RUN.rows.length), `${right} of ${judged.length} judged passed`),
    card("rounds", String(Math.max(0, ...RUN.rounds.map((one) => one.round))), RUN.state_text),
    card(
      "time at work",
      seconds(RUN.wall_s),
      own ? `${digits(own.share * 100, 2)} % of it the search itself` : "",
    ),
    card(
      "models",
      calls ? dollars(spent) : "none asked",
      calls ? `${calls} calls, ${tokens(used)} tokens` : "no tokens spent",
    ),
  ];
}

function axisChoice(axis) {
  return h(
    "div",
    { class: "choice", role: "group", "aria-label": "horizontal axis" },
    "over ",
    Object.entries(AXES).map(([name, one]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(one === axis),
          disabled: !hasAxis(RUN, one),
          title: hasAxis(RUN, one) ? "x: next axis" : "no model was asked",
          onclick: () => {
            state.x = name;
            show();
          },
        },
        one.name,
      ),
    ),
  );
}

/** Next axis that has something to show. */
function nextAxis() {
  const names = Object.keys(AXES).filter((name) => hasAxis(RUN, AXES[name]));
  state.x = names[(names.indexOf(state.x) + 1) % names.length];
  show();
}

/** The plot of one run, or of several that may share an axis. */
function progressPlot(drawn, axis, width, height) {
  const dots = drawn.flatMap(({ run, kind }) =>
    run.rows.filter((row) => isNumber(axis.of(row))).map((row) => ({ row, kind })),
  );
  const timed = dots.filter(({ row }) => row.speedup);
  const steps = drawn.flatMap(({ run }) => run.steps);
  const xs = [...dots.map(({ row }) => axis.of(row)), ...steps.map(axis.of)];
  if (!xs.length) return h("p", {}, "Nothing is judged yet.");
  const gutter = 26,
    bottom = height - PAD.bottom;
  const x = linear(
    axis === AXES.round ? 0.5 : 0,
    Math.max(...xs) + (axis === AXES.round ? 0.5 : Math.max(...xs) * 0.02),
    PAD.left,
    width - PAD.right,
  );
  const y = speedupScale(
    timed.map(({ row }) => row.speedup),
    bottom - gutter,
    PAD.top,
  );
  const svg = s("svg", {
    class: "plot",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `speed-up of ${timed.length} timed candidates over ${axis.name}`,
  });
  svg.append(
    axes(
      width,
      height,
      x,
      y,
      axis.word,
      `speed-up (×, ${drawn[0].run.time_source || TIME_WORD})`,
      axis.whole,
    ),
  );
  svg.append(
    y(1) <= bottom - gutter
      ? s(
          "g",
          {},
          s("line", { class: "baseline", x1: PAD.left, x2: width - PAD.right, y1: y(1), y2: y(1) }),
          s(
            "text",
            { class: "soft", x: width - PAD.right - 4, y: y(1) - 5, "text-anchor": "end" },
            "baseline",
          ),
        )
      : "",
    s("line", {
      class: "grid",
      x1: PAD.left,
      x2: width - PAD.right,
      y1: bottom - gutter + 6,
      y2: bottom - gutter + 6,
    }),
    s("text", { class: "soft", x: PAD.left - 7, y: bottom - 8, "text-anchor": "end" }, "no time"),
  );
  for (const { run, kind } of drawn)
    svg.append(s("path", { class: `best-line ${kind}`, d: bestLine(run, axis, x, y) }));
  const crowded = new Map();
  for (const { row, kind } of dots) {
    // Candidates of one round stand beside each other.
    const column =
      axis === AXES.round ? x(axis.of(row)) + spread(row, crowded, (x(1) - x(0)) * 0.7) : x(axis.of(row));
    const dot = mark(
      row,
      column,
      row.speedup ? y(row.speedup) : bottom - gutter / 2 + 2,
      dots.length > 150 ? 3.2 : 5,
      kind === "own" ? {} : { best: row.id === DATA.other.best, name: "" },
    );
    dot.classList.add(kind);
    svg.append(dot);
  }
  return pickable(svg);
}

const MOST_IN_A_ROUND = Math.max(0, ...RUN.rounds.map((one) => one.candidates.length));

function spread(row, crowded, width) {
  const place = crowded.get(row.round) ?? 0,
    together = MOST_IN_A_ROUND;
  crowded.set(row.round, place + 1);
  return together < 2 ? 0 : ((place % together) / (together - 1) - 0.5) * Math.min(width, together * 12);
}

function bestLine(run, axis, x, y) {
  let path = "";
  for (const step of run.steps) {
    if (!step.speedup) continue;
    const at = x(axis.of(step)).toFixed(1),
      up = y(step.speedup).toFixed(1);
    path += path ? `H${at}V${up}` : `M${at},${up}`;
  }
  // A run knows nothing beyond its own end.
  const end = Math.max(...[...run.rows, ...run.steps].map(axis.of).filter(isNumber));
  return path && path + `H${x(end).toFixed(1)}`;
}

function outcomes() {
  const kinds = new Map();
  for (const row of RUN.rows) {
    const name = row.code || row.state || "not judged";
    kinds.set(name, (kinds.get(name) ?? 0) + 1);
  }
  const lines = [...kinds]
    .sort((a, b) => b[1] - a[1])
    .map(([name, count]) => [
      filterLink(name, name),
      count,
      String(count),
      name === "PASSED" ? "passed" : "failed",
    ]);
  return lines.length ? bars(lines, "candidates") : h("p", {}, "None yet.");
}

function limits() {
  const kinds = new Map();
  for (const row of RUN.rows)
    if (row.limited_by) kinds.set(row.limited_by, (kinds.get(row.limited_by) ?? 0) + 1);
  const lines = [...kinds]
    .sort((a, b) => b[1] - a[1])
    .map(([name, count]) => [filterLink(name, name.replaceAll("_", " ")), count, String(count)]);
  return lines.length ? bars(lines, "candidates") : h("p", {}, "Nothing has passed yet.");
}

function filterLink(filter, text) {
  return h(
    "button",
    {
      type: "button",
      class: "plainly",
      title: "show these",
      onclick: () => {
        Object.assign(state, { view: "candidates", filter });
        show();
      },
    },
    text,
  );
}
