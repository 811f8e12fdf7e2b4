// How fast a kernel is and why: its times per size beside the baseline's, and its profile.

function paneTimes(view) {
  if (!view.times.length) return h("p", {}, "It was not timed.");
  const shown = view.times.filter((one) => isNumber(one.us));
  const ci = (one) =>
    isNumber(one.low) && isNumber(one.high) ? ` (${one.low.toFixed(2)} to ${one.high.toFixed(2)})` : "";
  const plusMinus = (value) => (value ? ` ±${digits(value * 100, 2)} %` : "");
  return [
    timesPlot(shown),
    h(
      "table",
      { class: "rows narrow" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["size", "time", "baseline", "speed-up", "how"].map((one) => h("th", {}, one)),
        ),
      ),
      h(
        "tbody",
        {},
        view.times.map((one) =>
          h(
            "tr",
            {},
            h("td", { title: one.dims }, one.label),
            h("td", { class: "figure" }, us(one.us) + plusMinus(one.spread)),
            h("td", { class: "figure" }, us(one.baseline_us) + plusMinus(one.baseline_spread)),
            h(
              "td",
              { class: "figure" },
              times(one.speedup) + ci(one) + (one.outcome === "tie" ? ", a tie" : ""),
            ),
            h("td", {}, [one.source, one.l2 && `L2 ${one.l2}`, one.note].filter(Boolean).join(", ")),
          ),
        ),
      ),
    ),
    h("p", { class: "note" }, view.profile?.circumstances ?? ""),
  ];
}

/** Time of this kernel and of the baseline at each size, on one logarithmic axis. */
function timesPlot(shown) {
  const line = 34,
    width = 560,
    left = 150,
    height = 16 + shown.length * line + PAD.bottom;
  const values = shown.flatMap((one) => [one.us, one.baseline_us]).filter((one) => isNumber(one) && one > 0);
  if (!values.length) return "";
  const low = 10 ** Math.floor(Math.log10(Math.min(...values)) - 0.05),
    high = Math.max(...values) * 1.2;
  const x = logarithmic(low, high, left, width - 20),
    bottom = height - PAD.bottom;
  const svg = s("svg", {
    class: "plot",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "time at each size",
  });
  for (const tick of x.ticks) {
    svg.append(
      s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 8, y2: bottom }),
      s("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle" }, x.label(tick)),
    );
  }
  shown.forEach((one, index) => {
    const y = 16 + index * line;
    svg.append(s("text", { x: left - 8, y: y + 14, "text-anchor": "end" }, one.label));
    [
      [one.us, "own", one.spread],
      [one.baseline_us, "base", one.baseline_spread],
    ].forEach(([value, kind, spread], place) => {
      if (!isNumber(value) || value <= 0) return;
      svg.append(
        s(
          "rect",
          {
            class: "time " + kind,
            x: left,
            y: y + place * 11,
            width: Math.max(1, x(value) - left),
            height: 9,
          },
          s("title", {}, us(value)),
        ),
      );
      if (spread)
        svg.append(
          s("line", {
            class: "whisker",
            x1: x(value * (1 - spread)),
            x2: x(value * (1 + spread)),
            y1: y + place * 11 + 4.5,
            y2: y + place * 11 + 4.5,
          }),
        );
    });
  });
  svg.append(
    s("path", { class: "frame", d: `M${left},8V${bottom}H${width - 20}` }),
    s(
      "text",
      { class: "title", x: (left + width) / 2, y: height - 6, "text-anchor": "middle" },
      `time of one call (µs, ${TIME_WORD}, logarithmic)`,
    ),
  );
  return [
    svg,
    h(
      "p",
      { class: "legend" },
      h("span", { class: "key own" }, "this kernel"),
      h("span", { class: "key base" }, "the task's baseline"),
    ),
  ];
}

function paneProfile(view) {
  const profile = view.profile;
  if (!profile) return h("p", {}, "It has no profile: only kernels that passed are timed.");
  return [
    h("p", { class: "note" }, `On ${profile.device}, ${profile.source}. ${profile.isolation}`),
    h("h3", {}, "What limits it"),
    profile.bottlenecks.length
      ? bars(
          profile.bottlenecks.map((one) => [one.code.replaceAll("_", " "), one.share, one.worth]),
          "part of the time",
        )
      : h("p", {}, "Nothing was found."),
    h(
      "ul",
      {},
      profile.bottlenecks.map((one) =>
        h(
          "li",
          {},
          h("strong", {}, one.code.replaceAll("_", " ")),
          ": ",
          one.text,
          one.spot ? [" at ", h("code", {}, one.spot)] : "",
          one.advice ? h("div", { class: "soft" }, one.advice) : "",
        ),
      ),
    ),
    profile.launches.map((one) =>
      h(
        "section",
        {},
        h("h3", {}, "Launch of ", h("code", {}, one.kernel)),
        h(
          "p",
          {},
          `grid ${one.grid}, block ${one.block}, ${one.shared.toLocaleString("en-US")} B shared, occupancy ${digits(one.occupancy * 100)} %, ${us(one.us)}`,
        ),
        Object.keys(one.terms).length
          ? bars(
              Object.entries(one.terms)
                .sort((a, b) => b[1] - a[1])
                .map(([name, value]) => [name, value, us(value)]),
              "time by cause, as modelled (they overlap)",
            )
          : "",
        Object.keys(one.figures).length
          ? h(
              "details",
              {},
              h("summary", {}, "counts"),
              factTable(
                Object.entries(one.figures).map(([name, value]) => [
                  name.replaceAll("_", " "),
                  isNumber(value) ? digits(value, 5) : String(value),
                ]),
              ),
            )
          : "",
      ),
    ),
    profile.resources.length
      ? [
          h("h3", {}, "Resources"),
          h(
            "table",
            { class: "rows narrow" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                ["kernel", "registers a thread", "shared B a block", "spilled B"].map((one) =>
                  h("th", {}, one),
                ),
              ),
            ),
            h(
              "tbody",
              {},
              profile.resources.map((one) =>
                h(
                  "tr",
                  {},
                  h("td", {}, h("code", {}, one.kernel)),
                  [one.registers, one.shared, one.spilled].map((value) =>
                    h("td", { class: "figure" }, value.toLocaleString("en-US")),
                  ),
                ),
              ),
            ),
          ),
        ]
      : "",
  ];
}
