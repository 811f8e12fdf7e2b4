// The pane of one candidate: its order and hints, its answer, and its verdict.

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
  if (!row) {
    box.replaceChildren();
    return;
  }
  const whole = await unpack();
  if (state.c !== row.id) return;
  const view = whole.candidates[row.id];
  const pane = PANES[state.pane] ? state.pane : "about";
  const body = h(
    "div",
    { id: "pane-body", role: "tabpanel", tabindex: 0, "aria-labelledby": "pane-" + pane },
    PANES[pane][1](view, row, whole),
  );
  box.replaceChildren(
    h(
      "header",
      {},
      h(
        "h2",
        {},
        row.id,
        " ",
        h(
          "span",
          { class: "chip " + (failed(row) ? "failed" : passed(row) ? "passed" : "open") },
          resultOf(row),
        ),
        row.id === RUN.best ? h("span", { class: "chip best" }, "best") : "",
      ),
      h(
        "span",
        { class: "family" },
        row.parent ? ["from ", link(row.parent)] : "from nothing",
        children(row),
      ),
      h("button", { type: "button", onclick: () => select(""), "aria-label": "close (Escape)" }, "×"),
    ),
    h(
      "div",
      { role: "tablist", "aria-label": "panes of the candidate" },
      Object.entries(PANES).map(([name, [title]]) =>
        h(
          "button",
          {
            type: "button",
            role: "tab",
            id: "pane-" + name,
            "aria-selected": String(name === pane),
            "aria-controls": "pane-body",
            tabindex: name === pane ? 0 : -1,
            class: hasPane(name, view, row) ? null : "empty",
            onclick: () => choosePane(name),
          },
          title,
        ),
      ),
    ),
    body,
  );
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
  showCandidate().then(() =>
    document.getElementById("pane-" + name)?.scrollIntoView({ block: "nearest", inline: "nearest" }),
  );
}

function children(row) {
  const found = RUN.rows.filter((one) => one.parent === row.id);
  return found.length
    ? [
        ", led to ",
        found.slice(0, 6).map((one, index) => [index ? ", " : "", link(one.id)]),
        found.length > 6 ? ` and ${found.length - 6} more` : "",
      ]
    : "";
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
    [
      "predicted",
      row.predicted_us === null
        ? ""
        : `${us(row.predicted_us)} saved at the largest size; had: ${row.had_us === null ? "no time to compare" : us(row.had_us)}`,
    ],
    ["checked", view.checked],
    [
      "took",
      Object.entries(row.seconds)
        .map(([stage, one]) => `${stage} ${seconds(one)}`)
        .join(", "),
    ],
    ["cost", row.own_tokens ? `${tokens(row.own_tokens)} tokens, ${dollars(row.own_usd)}` : ""],
  ].filter(([, text]) => text);
  const calls = RUN.calls.filter(
    (call) => call.call === `candidates/${row.id}` || call.call.startsWith(`candidates/${row.id}/`),
  );
  const raised = RUN.rounds.flatMap((one) => one.tracebacks).find(([, about]) => about === row.id);
  return [
    view.verdict.length
      ? h(
          "div",
          { class: "verdict " + (failed(row) ? "failed" : "") },
          view.verdict.map((line) => h("p", { class: "lines" }, linked(line))),
        )
      : "",
    raised ? [h("h3", {}, "Traceback of the generator"), plainText(raised[2])] : "",
    factTable(facts),
    view.hints.length
      ? [
          h("h3", {}, "Hints in its brief"),
          h(
            "ul",
            {},
            view.hints.map(([id, code, text]) =>
              h("li", {}, hintLink(id), " ", HINTS.has(id) ? "" : code, " ", text),
            ),
          ),
        ]
      : "",
    view.history.length
      ? h(
          "p",
          {},
          "Earlier attempts in its prompt: ",
          view.history.map((id) => [link(id), " "]),
        )
      : "",
    callsOf(calls),
  ];
}

function paneSource(view, row, whole) {
  const text = textOf(whole, view.texts.source);
  const marked = new Map(
    (view.profile?.bottlenecks ?? [])
      .filter((one) => one.line)
      .map((one) => [one.line, `${one.code}: ${one.text}`]),
  );
  return text ? listing(text, marked) : h("p", {}, "There is no source.");
}

function paneDiff(view, row, whole) {
  if (!row.parent) return h("p", {}, "It has no parent.");
  const before = textOf(whole, whole.candidates[row.parent]?.texts.source),
    after = textOf(whole, view.texts.source);
  if (!before || !after) return h("p", {}, `The source of ${before ? row.id : row.parent} is not there.`);
  return difference(before, after, row.parent, row.id);
}

function paneText(view, whole, name, none) {
  const text = textOf(whole, view.texts[name]);
  return text ? plainText(text) : h("p", {}, none);
}
