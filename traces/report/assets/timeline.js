// What was at work when: a lane for each kind of work, overlapping work in lines of its own.

const LANE_WORDS = {
  model: "models",
  generator: "generator",
  compiler: "compiler",
  device: "device",
  contests: "contests",
  waiting: "waiting",
};
let zoom = 1;

/** Puts spans that overlap into different lines. */
function packed(spans) {
  const ends = [];
  return [...spans]
    .sort((a, b) => a.start_s - b.start_s)
    .map((span) => {
      let line = ends.findIndex((end) => end <= span.start_s + 1e-6);
      if (line < 0) line = ends.length;
      ends[line] = span.end_s;
      return { span, line };
    });
}

function viewTimeline() {
  if (!RUN.spans.length) return [h("h2", {}, "Timeline"), h("p", {}, "Nothing has ended yet.")];
  const left = 92,
    width = Math.round(Math.max(700, document.getElementById("view").clientWidth - 44) * zoom),
    end = RUN.wall_s || 1;
  const x = linear(0, end, left, width - 14);
  const plot = s("svg", { class: "plot lanes", width, role: "img", "aria-label": "timeline of the run" });
  let y = 26;
  const body = s("g", {});
  for (const [lane, word] of Object.entries(LANE_WORDS)) {
    const lines = packed(RUN.spans.filter((span) => span.lane === lane));
    if (!lines.length) continue;
    const count = Math.max(...lines.map((one) => one.line)) + 1;
    const step = count > 40 ? 5 : count > 14 ? 9 : 15;
    body.append(
      s("text", { class: "title", x: 4, y: y + 12 }, word),
      s("line", { class: "grid", x1: 0, x2: width, y1: y - 4, y2: y - 4 }),
    );
    for (const { span, line } of lines) {
      const from = x(span.start_s),
        wide = Math.max(1, x(span.end_s) - from);
      const bad = span.outcome && !["ok", "PASSED", "faster", "slower", "tie"].includes(span.outcome);
      body.append(
        s(
          "rect",
          {
            class: `span ${lane}${bad ? (wide < 6 ? " bad narrow" : " bad") : ""}`,
            "data-c": span.candidate || null,
            x: from.toFixed(1),
            y: y + line * step,
            width: wide.toFixed(1),
            height: step - 2,
            rx: 1.5,
          },
          s("title", {}, spanTitle(span)),
        ),
      );
      const text = [span.candidate, span.what].filter(Boolean).join(" ");
      if (step >= 15 && wide > text.length * 6.2)
        body.append(s("text", { class: `in-span ${lane}`, x: from + 4, y: y + line * step + 10 }, text));
    }
    y += count * step + 10;
  }
  let named = -Infinity;
  for (const [number, start] of RUN.round_starts) {
    body.append(s("line", { class: "round", x1: x(start), x2: x(start), y1: 14, y2: y }));
    if (x(start) - named < 62) continue;
    named = x(start);
    body.append(s("text", { class: "soft", x: named + 3, y: 11 }, `round ${number}`));
  }
  for (const tick of linearTicks(0, end, 8 * zoom)) {
    body.append(
      s("line", { class: "tick", x1: x(tick), x2: x(tick), y1: y, y2: y + 4 }),
      s("text", { x: x(tick), y: y + 17, "text-anchor": "middle" }, digits(tick, 4)),
    );
  }
  body.append(
    s("path", { class: "frame", d: `M${left},${y}H${width - 14}` }),
    s(
      "text",
      { class: "title", x: (left + width) / 2, y: y + 36, "text-anchor": "middle" },
      "time at work (s), pauses before a resume left out",
    ),
  );
  plot.append(body);
  plot.setAttribute("height", y + 42);
  plot.setAttribute("viewBox", `0 0 ${width} ${y + 42}`);
  return [
    h("h2", {}, "Timeline"),
    h(
      "p",
      { class: "note" },
      "Bars in one lane below each other ran at once. A dashed edge: it ended in a failure. Waiting: between two stages of a candidate.",
    ),
    h(
      "p",
      { class: "choice" },
      h("button", { type: "button", onclick: () => setZoom(2) }, "zoom in (+)"),
      h("button", { type: "button", onclick: () => setZoom(0.5) }, "zoom out (−)"),
    ),
    h("div", { class: "scroll tall" }, pickable(plot)),
  ];
}

function spanTitle(span) {
  const parts = [
    `${span.candidate} ${span.what}`.trim(),
    `${seconds(span.end_s - span.start_s)} from ${seconds(span.start_s)}`,
    span.outcome,
    span.detail,
  ];
  return parts.filter(Boolean).join("\n");
}

function setZoom(factor) {
  zoom = Math.min(64, Math.max(1, zoom * factor));
  show();
}

/** Time and money: what the search itself cost beside the work it ordered. */
function viewCost() {
  const whole = RUN.shares.filter((one) => one.share > 0);
  const spends = RUN.spends;
  return [
    h("h2", {}, "Where the time went"),
    h(
      "p",
      { class: "note" },
      `${seconds(RUN.wall_s)} from the first event to the last. Shares overlap: several kinds of work run at once. Times here are of the clock on the wall, always measured.`,
    ),
    bars(
      whole.map((one) => [
        shareName(one),
        one.wall_s,
        `${seconds(one.wall_s)}, ${digits(one.share * 100, 3)} %`,
        LANE_WORDS[one.name] ? `span ${one.name}` : one.name === "search itself" ? "own" : "waiting",
      ]),
      "wall time in which it was at work",
    ),
    h(
      "table",
      { class: "rows narrow" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["what", "summed over all at once", "on the wall", "note"].map((one) => h("th", {}, one)),
        ),
      ),
      h(
        "tbody",
        {},
        RUN.shares.map((one) =>
          h(
            "tr",
            {},
            h("td", {}, shareName(one)),
            h("td", { class: "figure" }, seconds(one.busy_s)),
            h("td", { class: "figure" }, seconds(one.wall_s)),
            h("td", {}, one.note),
          ),
        ),
      ),
    ),
    h("h2", {}, "Round by round"),
    roundTable(),
    h("h2", {}, "What models cost"),
    spends.length ? spendTable(spends) : h("p", {}, "No model was asked."),
  ];
}

const shareName = (one) => LANE_WORDS[one.name] ?? one.name;

/** Wall time of each round by lane, and what is left to the search. */
function roundTable() {
  const lanes = Object.keys(LANE_WORDS).filter((lane) => RUN.round_times.some((one) => one.lanes_s[lane] > 0));
  const names = ["round", "whole", ...lanes.map((lane) => LANE_WORDS[lane]), "search itself", "of the whole"];
  const row = (one) => [
    seconds(one.wall_s),
    ...lanes.map((lane) => seconds(one.lanes_s[lane])),
    seconds(one.own_s),
    one.wall_s ? `${digits((one.own_s / one.wall_s) * 100, 2)} %` : "",
  ];
  return h(
    "table",
    { class: "rows narrow" },
    h("thead", {}, h("tr", {}, names.map((name, index) => h("th", { class: index ? "figure" : null }, name)))),
    h(
      "tbody",
      {},
      RUN.round_times.map((one) =>
        h(
          "tr",
          {},
          h("td", {}, one.round ? String(one.round) : "before the first"),
          row(one).map((cell) => h("td", { class: "figure" }, cell)),
        ),
      ),
    ),
  );
}

function spendTable(spends) {
  const names = [
    "round",
    "agent",
    "calls",
    "in vain",
    "tokens in",
    "tokens out",
    "cost",
    "lost at most",
    "waited for",
  ];
  const row = (one, round) =>
    h(
      "tr",
      {},
      h("td", {}, round),
      h("td", {}, one.agent),
      [
        String(one.calls),
        one.failed ? String(one.failed) : "",
        tokens(one.input_tokens),
        tokens(one.output_tokens),
        dollars(one.usd),
        one.lost_usd ? dollars(one.lost_usd) : "",
        seconds(one.seconds),
      ].map((cell) => h("td", { class: "figure" }, cell)),
    );
  const add = (key) => spends.reduce((sum, one) => sum + (one[key] ?? 0), 0);
  const all = {
    agent: "all",
    calls: add("calls"),
    failed: add("failed"),
    input_tokens: add("input_tokens"),
    output_tokens: add("output_tokens"),
    usd: spends.some((one) => one.usd === null) ? null : add("usd"),
    lost_usd: add("lost_usd"),
    seconds: add("seconds"),
  };
  return h(
    "table",
    { class: "rows narrow" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        names.map((one) => h("th", {}, one)),
      ),
    ),
    h(
      "tbody",
      {},
      spends.map((one) => row(one, String(one.round))),
    ),
    h("tfoot", {}, row(all, "all")),
  );
}
