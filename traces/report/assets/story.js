// Why: each round's choices, and each hint with what came of it.

function viewRounds() {
  return [
    h("h2", {}, "Rounds"),
    RUN.rounds.map((round) =>
      h(
        "section",
        { class: "round" },
        h("h3", {}, round.round ? `Round ${round.round}` : "Before the first round"),
        round.reason
          ? h(
              "p",
              { class: "choice-line" },
              h("strong", {}, round.before === round.incumbent ? "kept " : "chosen "),
              round.incumbent ? link(round.incumbent) : "the baseline",
              ": ",
              linked(round.reason),
            )
          : "",
        round.candidates.length
          ? h(
              "p",
              {},
              "candidates: ",
              round.candidates.map((id) => [chip(id), " "]),
            )
          : "",
        round.hints.length
          ? h(
              "p",
              {},
              "learned: ",
              round.hints.map((id) => [hintLink(id), " "]),
            )
          : "",
        h(
          "table",
          { class: "facts" },
          h(
            "tbody",
            {},
            round.facts.map(([label, about, text]) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, label.replaceAll("_", " ")),
                h("td", { class: "lines" }, about ? [link(about), " "] : "", linked(text)),
              ),
            ),
          ),
        ),
        round.tracebacks.map(([who, about, text]) =>
          h(
            "details",
            { class: "traceback" },
            h("summary", {}, `traceback of ${who}`, about ? [" at ", link(about)] : ""),
            plainText(text),
          ),
        ),
        callsOf(
          RUN.calls.filter((call) => call.round === round.round && !call.call.startsWith("candidates/")),
        ),
      ),
    ),
  ];
}

/** A candidate with its result, as a link. */
function chip(id) {
  const row = ROWS.get(id);
  return h(
    "span",
    { class: "chip " + (row ? (failed(row) ? "failed" : passed(row) ? "passed" : "open") : "open") },
    link(id),
    row ? " " + resultOf(row) : "",
  );
}

/** Calls to models, prompt and reply folded. */
function callsOf(calls) {
  return calls.map((call) =>
    h(
      "details",
      {
        ontoggle: async (event) => {
          const box = event.target;
          if (!box.open || box.dataset.filled) return;
          box.dataset.filled = "yes";
          const whole = await unpack();
          box.append(
            h("h4", {}, "prompt"),
            plainText(textOf(whole, `${call.call}/prompt`) || "not kept"),
            h("h4", {}, "reply"),
            plainText(textOf(whole, `${call.call}/reply`) || "none"),
          );
        },
      },
      h(
        "summary",
        {},
        `${call.agent} asked ${call.model || "a model"}: ${call.outcome}, ${call.tokens}, ${dollars(call.usd)}, ${seconds(call.seconds)}` +
          `${call.tries > 1 ? `, ${call.tries} tries` : ""}${call.detail ? ": " + call.detail : ""} (${call.call})`,
      ),
    ),
  );
}

function hintLink(id) {
  return h(
    "a",
    {
      href: "#",
      class: "id",
      onclick: (event) => {
        event.preventDefault();
        state.view = "hints";
        show();
        document.getElementById("hint-" + id)?.scrollIntoView({ block: "center" });
      },
    },
    HINTS.has(id) ? `${id} (${HINTS.get(id).code})` : id,
  );
}

function viewHints() {
  return [
    h("h2", {}, "Hints, and what came of them"),
    RUN.records.length
      ? [
          h("h3", {}, "Predictions by kind of diagnosis"),
          h(
            "p",
            { class: "note" },
            `What fixing one thing should have saved of a call at the largest size, and what was saved; times ${TIME_WORD}.`,
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
                ["diagnosis", "tried", "predicted, summed", "had, summed", "within a factor of two"].map(
                  (one) => h("th", {}, one),
                ),
              ),
            ),
            h(
              "tbody",
              {},
              RUN.records.map((record) =>
                h(
                  "tr",
                  {},
                  record.map((cell, index) =>
                    h("td", { class: index ? "figure" : null }, index ? cell : cell.replaceAll("_", " ")),
                  ),
                ),
              ),
            ),
          ),
        ]
      : "",
    RUN.hints.length ? RUN.hints.map(hintBox) : h("p", {}, "Nothing was learned."),
  ];
}

function hintBox(hint) {
  return h(
    "section",
    { class: "hint " + (hint.channel === "error_hints" ? "error" : "speed"), id: "hint-" + hint.id },
    h(
      "h3",
      {},
      `${hint.id} · ${hint.code.replaceAll("_", " ")}`,
      h(
        "span",
        { class: "soft" },
        ` ${hint.channel === "error_hints" ? "error" : "speed"} hint by ${hint.by}${hint.times > 1 ? `, learned ${hint.times} times` : ""}`,
      ),
      hint.about ? [" from ", link(hint.about)] : "",
    ),
    h("p", { class: "lines" }, linked(hint.text)),
    hint.hardware_text ? h("p", { class: "lines" }, hint.hardware_text) : "",
    hint.evidence ? h("p", { class: "lines soft" }, "seen: ", hint.evidence) : "",
    hint.avoid.length ? h("p", { class: "soft" }, "avoid: ", hint.avoid.join("; ")) : "",
    hint.gain ? h("p", {}, `expected to save ${digits(hint.gain * 100, 2)} % of the time`) : "",
    hint.receivers.length
      ? h(
          "table",
          { class: "rows narrow" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["candidate", "result", "over its parent", "predicted", "had"].map((one) => h("th", {}, one)),
            ),
          ),
          h(
            "tbody",
            {},
            hint.receivers
              .map((id) => ROWS.get(id))
              .filter(Boolean)
              .map((row) =>
                h(
                  "tr",
                  { class: failed(row) ? "failed" : "" },
                  h("td", {}, link(row.id)),
                  h("td", {}, resultOf(row)),
                  h("td", { class: "figure" }, times(row.versus_parent)),
                  h("td", { class: "figure" }, us(row.predicted_us)),
                  h("td", { class: "figure" }, us(row.had_us)),
                ),
              ),
          ),
        )
      : h("p", { class: "soft" }, "in the brief of no candidate"),
  );
}
