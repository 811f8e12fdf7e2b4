// Two runs beside each other. They share an axis only where task, device and source of times agree.

function viewCompare() {
  const other = DATA.other;
  if (!other) {
    return [
      h("h2", {}, "Compare"),
      h("p", {}, "This report holds one run. Put another beside it: "),
      h("pre", { class: "plain" }, `cuda-llm trace report ${RUN.spelled} --compare OTHER`),
    ];
  }
  const axis =
    AXES[state.x] && hasAxis(RUN, AXES[state.x]) && hasAxis(other, AXES[state.x])
      ? AXES[state.x]
      : AXES.evaluation;
  const same = RUN.comparable && RUN.comparable === other.comparable;
  const named = (letter, run) =>
    h(
      "h3",
      {},
      h("span", { class: "key " + letter }, letter.toUpperCase()),
      " ",
      RUN.home ? h("a", { href: "/run/" + encodeURIComponent(run.run_id) }, run.run_id) : run.run_id,
    );
  return [
    h("h2", {}, "Two runs"),
    h("div", { class: "columns" }, h("div", {}, named("a", RUN)), h("div", {}, named("b", other))),
    axisChoice(axis),
    same
      ? progressPlot(
          [
            { run: RUN, kind: "own" },
            { run: other, kind: "other" },
          ],
          axis,
          940,
          400,
        )
      : [
          h(
            "p",
            { class: "missing" },
            `Not on one axis, and not to be ranked: A is ${RUN.comparable || "unknown"}; B is ${other.comparable || "unknown"}.`,
          ),
          h(
            "div",
            { class: "columns" },
            [RUN, other].map((run) =>
              h("div", {}, progressPlot([{ run, kind: run === RUN ? "own" : "other" }], axis, 560, 330)),
            ),
          ),
        ],
    pairTable(other, same),
    h("h3", {}, "Settings that differ"),
    settingsTable(other),
  ];
}

function pairTable(other, same) {
  const count = (run, of) => String(run.rows.filter(of).length);
  const spent = (run) =>
    run.spends.some((one) => one.usd === null)
      ? "price unknown"
      : run.spends.length
        ? dollars(run.spends.reduce((sum, one) => sum + one.usd, 0))
        : "no model";
  const own = (run) => {
    const found = run.shares.find((one) => one.name === "search itself");
    return found ? `${seconds(found.wall_s)}, ${digits(found.share * 100, 2)} %` : "";
  };
  const at = (run, index) => {
    const best = run.rows.find((row) => row.id === run.best);
    return best ? us(best.times_us?.[index]) : "";
  };
  const lines = [
    ["state", (run) => run.state_text],
    ["task", (run) => run.task],
    ["device", (run) => run.device],
    ["times are", (run) => run.time_source],
    ["best", (run) => (run.best ? `${run.best}: ${times(run.speedup)}` : run.result)],
    ["candidates", (run) => count(run, () => true)],
    ["passed", (run) => count(run, passed)],
    ["failed", (run) => count(run, failed)],
    ["time at work", (run) => seconds(run.wall_s)],
    ["the search itself", own],
    ["model calls", (run) => String(run.spends.reduce((sum, one) => sum + one.calls, 0))],
    ["cost", spent],
    ...(same ? RUN.baseline.map(([label], index) => [`best at ${label}`, (run) => at(run, index)]) : []),
  ];
  return h(
    "table",
    { class: "rows narrow" },
    h("thead", {}, h("tr", {}, h("th", {}, ""), h("th", {}, "A"), h("th", {}, "B"))),
    h(
      "tbody",
      {},
      lines.map(([name, of]) =>
        h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, of(RUN)), h("td", {}, of(other))),
      ),
    ),
  );
}

function settingsTable(other) {
  const names = [...new Set([...Object.keys(RUN.settings), ...Object.keys(other.settings)])].filter(
    (name) => RUN.settings[name] !== other.settings[name],
  );
  if (!names.length) return h("p", {}, "None.");
  return h(
    "table",
    { class: "rows narrow" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["setting", "A", "B"].map((one) => h("th", {}, one)),
      ),
    ),
    h(
      "tbody",
      {},
      names.map((name) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, name.replaceAll("_", " ")),
          h("td", {}, RUN.settings[name] ?? ""),
          h("td", {}, other.settings[name] ?? ""),
        ),
      ),
    ),
  );
}
