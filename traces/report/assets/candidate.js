// The pane of one candidate: what it was told, what it answered, and what became of it.

const PANES = {
  about: ["About", paneAbout],
  times: ["Times", paneTimes],
  roofline: ["Roofline", (view) => rooflinePlot(view)],
  profile: ["Profile", paneProfile],
  source: ["Source", paneSource],
  diff: ["Diff", paneDiff],
  prompt: ["Prompt", (view, row, whole) => paneText(view, whole, "prompt", "No model was asked for it.")],
  reply: ["Reply", (view, row, whole) => paneText(view, whole, "reply", "There is no reply.")],
  log: ["Build log", (view, row, whole) => paneText(view, whole, "log", "The compiler said nothing.")],
};

async function showCandidate() {
  const box = document.getElementById("pane");
  const row = ROWS.get(state.c);
  document.body.classList.toggle("with-pane", Boolean(row));
  if (!row) { box.replaceChildren(); return; }
  const whole = await unpack();
  if (state.c !== row.id) return;
  const view = whole.candidates[row.id];
  const pane = PANES[state.pane] ? state.pane : "about";
  const body = h("div", { id: "pane-body", role: "tabpanel", tabindex: 0, "aria-labelledby": "pane-" + pane }, PANES[pane][1](view, row, whole));
  box.replaceChildren(
    h("header", {}, h("h2", {}, row.id, " ", h("span", { class: "chip " + (failed(row) ? "failed" : passed(row) ? "passed" : "open") }, resultOf(row)),
      row.id === RUN.best ? h("span", { class: "chip best" }, "best") : ""),
      h("span", { class: "family" }, row.parent ? ["from ", link(row.parent)] : "from nothing", children(row)),
      h("button", { type: "button", onclick: () => select(""), "aria-label": "close (Escape)" }, "×")),
    h("div", { role: "tablist", "aria-label": "panes of the candidate" }, Object.entries(PANES).map(([name, [title]]) =>
      h("button", { type: "button", role: "tab", id: "pane-" + name, "aria-selected": String(name === pane), "aria-controls": "pane-body",
        tabindex: name === pane ? 0 : -1, class: hasPane(name, view, row) ? null : "empty", onclick: () => choosePane(name) }, title))),
    body);
  // The view is narrower now.
  markSelected(true);
}

/** Whether a pane has anything to show: others are greyed, never hidden. */
function hasPane(name, view, row) {
  if (name === "about") return true;
  if (name === "times" || name === "roofline") return view.times.length > 0;
  if (name === "profile") return Boolean(view.profile);
  if (name === "diff") return Boolean(view.texts.source && row.parent);
  return Boolean(view.texts[name]);
}

function choosePane(name) {
  state.pane = name;
  writeState();
  showCandidate().then(() => document.getElementById("pane-" + name)?.scrollIntoView({ block: "nearest", inline: "nearest" }));
}

function children(row) {
  const found = RUN.rows.filter((one) => one.parent === row.id);
  return found.length ? [", led to ", found.slice(0, 6).map((one, index) => [index ? ", " : "", link(one.id)]), found.length > 6 ? ` and ${found.length - 6} more` : ""] : "";
}

function paneAbout(view, row) {
  const facts = [
    ["verdict", row.code || row.state],
    ["order", view.order],
    ["answer", view.answer],
    ["written by", row.written_by],
    ["after its round", row.outcome],
    ["speed-up", row.speedup ? `${times(row.speedup)} over the baseline, ${TIME_WORD}` : ""],
    ["over its parent", times(row.versus_parent)],
    ["limited by", row.limited_by.replaceAll("_", " ")],
    ["predicted", row.predicted_us === null ? "" : `${us(row.predicted_us)} saved at the largest size; had: ${row.had_us === null ? "no time to compare" : us(row.had_us)}`],
    ["checked", view.checked],
    ["took", Object.entries(row.seconds).map(([stage, one]) => `${stage} ${seconds(one)}`).join(", ")],
    ["cost", row.own_tokens ? `${tokens(row.own_tokens)} tokens, ${dollars(row.own_usd)}` : ""],
  ].filter(([, text]) => text);
  const calls = RUN.calls.filter((call) => call.call === `candidates/${row.id}` || call.call.startsWith(`candidates/${row.id}/`));
  return [
    view.verdict.length ? h("div", { class: "verdict " + (failed(row) ? "failed" : "") }, view.verdict.map((line) => h("p", { class: "lines" }, linked(line)))) : "",
    factTable(facts),
    view.told.length ? [h("h3", {}, "Hints in its brief"), h("ul", {}, view.told.map(([id, code, text]) => h("li", {}, hintLink(id), " ", HINTS.has(id) ? "" : code, " ", text)))] : "",
    view.history.length ? h("p", {}, "Told of: ", view.history.map((id) => [link(id), " "])) : "",
    callsOf(calls),
  ];
}

function paneTimes(view) {
  if (!view.times.length) return h("p", {}, "It was not timed.");
  const shown = view.times.filter((one) => isNumber(one.us));
  const ci = (one) => (isNumber(one.low) && isNumber(one.high) ? ` (${one.low.toFixed(2)} to ${one.high.toFixed(2)})` : "");
  const plusMinus = (value) => (value ? ` ±${digits(value * 100, 2)} %` : "");
  return [timesPlot(shown),
    h("table", { class: "rows narrow" }, h("thead", {}, h("tr", {}, ["size", "time", "baseline", "speed-up", "how"].map((one) => h("th", {}, one)))),
      h("tbody", {}, view.times.map((one) => h("tr", {}, h("td", { title: one.dims }, one.label), h("td", { class: "figure" }, us(one.us) + plusMinus(one.spread)),
        h("td", { class: "figure" }, us(one.baseline_us) + plusMinus(one.baseline_spread)), h("td", { class: "figure" }, times(one.speedup) + ci(one) + (one.outcome === "tie" ? ", a tie" : "")),
        h("td", {}, [one.source, one.l2 && `L2 ${one.l2}`, one.note].filter(Boolean).join(", ")))))),
    h("p", { class: "note" }, view.profile?.circumstances ?? "")];
}

/** Time of this kernel and of the baseline at each size, on one logarithmic axis. */
function timesPlot(shown) {
  const line = 34, width = 560, left = 150, height = 16 + shown.length * line + PAD.bottom;
  const values = shown.flatMap((one) => [one.us, one.baseline_us]).filter((one) => isNumber(one) && one > 0);
  if (!values.length) return "";
  const low = 10 ** Math.floor(Math.log10(Math.min(...values)) - 0.05), high = Math.max(...values) * 1.2;
  const x = logarithmic(low, high, left, width - 20), bottom = height - PAD.bottom;
  const svg = s("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "time at each size" });
  for (const tick of x.ticks) {
    svg.append(s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 8, y2: bottom }), s("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle" }, x.label(tick)));
  }
  shown.forEach((one, index) => {
    const y = 16 + index * line;
    svg.append(s("text", { x: left - 8, y: y + 14, "text-anchor": "end" }, one.label));
    [[one.us, "own", one.spread], [one.baseline_us, "base", one.baseline_spread]].forEach(([value, kind, spread], place) => {
      if (!isNumber(value) || value <= 0) return;
      svg.append(s("rect", { class: "time " + kind, x: left, y: y + place * 11, width: Math.max(1, x(value) - left), height: 9 }, s("title", {}, us(value))));
      if (spread) svg.append(s("line", { class: "whisker", x1: x(value * (1 - spread)), x2: x(value * (1 + spread)), y1: y + place * 11 + 4.5, y2: y + place * 11 + 4.5 }));
    });
  });
  svg.append(s("path", { class: "frame", d: `M${left},8V${bottom}H${width - 20}` }),
    s("text", { class: "title", x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, `time of one call (µs, ${TIME_WORD}, logarithmic)`));
  return [svg, h("p", { class: "legend" }, h("span", { class: "key own" }, "this kernel"), h("span", { class: "key base" }, "the task's baseline"))];
}

function paneProfile(view) {
  const profile = view.profile;
  if (!profile) return h("p", {}, "It has no profile: only kernels that passed are timed.");
  return [
    h("p", { class: "note" }, `On ${profile.device}, ${profile.source}. ${profile.isolation}`),
    h("h3", {}, "What limits it"),
    profile.bottlenecks.length ? bars(profile.bottlenecks.map((one) => [one.code.replaceAll("_", " "), one.share, one.worth]), "part of the time") : h("p", {}, "Nothing was found."),
    h("ul", {}, profile.bottlenecks.map((one) => h("li", {}, h("strong", {}, one.code.replaceAll("_", " ")), ": ", one.text, one.spot ? [" at ", h("code", {}, one.spot)] : "",
      one.advice ? h("div", { class: "soft" }, one.advice) : ""))),
    profile.launches.map((one) => h("section", {}, h("h3", {}, "Launch of ", h("code", {}, one.kernel)),
      h("p", {}, `grid ${one.grid}, block ${one.block}, ${one.shared.toLocaleString("en-US")} B shared, occupancy ${digits(one.occupancy * 100)} %, ${us(one.us)}`),
      Object.keys(one.terms).length ? bars(Object.entries(one.terms).sort((a, b) => b[1] - a[1]).map(([name, value]) => [name, value, us(value)]), `time by cause (${profile.source}; they overlap)`) : "",
      Object.keys(one.figures).length ? h("details", {}, h("summary", {}, "counts"), factTable(Object.entries(one.figures).map(([name, value]) => [name.replaceAll("_", " "), isNumber(value) ? digits(value, 5) : String(value)]))) : "")),
    profile.resources.length ? [h("h3", {}, "Resources"), h("table", { class: "rows narrow" }, h("thead", {}, h("tr", {}, ["kernel", "registers a thread", "shared B a block", "spilled B"].map((one) => h("th", {}, one)))),
      h("tbody", {}, profile.resources.map((one) => h("tr", {}, h("td", {}, h("code", {}, one.kernel)), [one.registers, one.shared, one.spilled].map((value) => h("td", { class: "figure" }, value.toLocaleString("en-US"))))))) ] : "",
  ];
}

function paneSource(view, row, whole) {
  const text = textOf(whole, view.texts.source);
  const marked = new Map((view.profile?.bottlenecks ?? []).filter((one) => one.line).map((one) => [one.line, `${one.code}: ${one.text}`]));
  return text ? listing(text, marked) : h("p", {}, "There is no source.");
}

function paneDiff(view, row, whole) {
  if (!row.parent) return h("p", {}, "It has no parent.");
  const before = textOf(whole, whole.candidates[row.parent]?.texts.source), after = textOf(whole, view.texts.source);
  if (!before || !after) return h("p", {}, `The source of ${before ? row.id : row.parent} is not there.`);
  return difference(before, after, row.parent, row.id);
}

function paneText(view, whole, name, none) {
  const text = textOf(whole, view.texts[name]);
  return text ? plainText(text) : h("p", {}, none);
}
