// Axes, scales and marks. Colours are classes, so that light and dark have their own.

const PAD = { left: 66, right: 18, top: 14, bottom: 44 };

function linear(from, to, start, end) {
  const span = to - from || 1;
  const at = (value) => start + ((value - from) / span) * (end - start);
  at.ticks = linearTicks(from, to);
  at.label = (value) => digits(value, 4);
  return at;
}

function linearTicks(from, to, wanted = 6) {
  const raw = (to - from || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((one) => one * power >= raw) * power;
  const ticks = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + step * 1e-9; k++) ticks.push(k * step);
  return ticks;
}

function logarithmic(from, to, start, end) {
  const low = Math.log10(from),
    high = Math.log10(to);
  const at = (value) => start + ((Math.log10(value) - low) / (high - low || 1)) * (end - start);
  const wide = high - low > 2.2;
  at.ticks = [];
  for (let power = Math.floor(low); power <= high; power++) {
    for (const step of wide ? [1] : high - low > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8]) {
      const value = step * 10 ** power;
      if (value >= from * 0.999 && value <= to * 1.001) at.ticks.push(value);
    }
  }
  at.label = (value) => digits(value, 3);
  return at;
}

/** A scale over positive values, logarithmic where they span more than `most` times. */
function scaleFor(values, start, end, most = 6) {
  const low = Math.min(...values),
    high = Math.max(...values);
  if (low > 0 && high / low > most) return logarithmic(low / 1.15, high * 1.15, start, end);
  return linear(Math.min(0, low), high * 1.06 || 1, start, end);
}

/** A scale of speed-ups, all of its length for the data; the baseline's 1 is on it where that is near. */
function speedupScale(values, start, end) {
  const near = values.length && Math.min(...values) > 2.5 ? values : [1, ...values];
  const low = Math.min(...near),
    high = Math.max(...near);
  if (high / low > 6) return logarithmic(low / 1.15, high * 1.15, start, end);
  const room = (high - low) * 0.08 || 0.1;
  return linear(low - room, high + room, start, end);
}

/** A frame with two labelled axes; `x` and `y` are scales made for its inner box. */
function axes(width, height, x, y, xName, yName, whole = false) {
  const bottom = height - PAD.bottom,
    right = width - PAD.right;
  const group = s("g", { class: "axes" });
  for (const tick of y.ticks) {
    group.append(
      s("line", { class: "grid", x1: PAD.left, x2: right, y1: y(tick), y2: y(tick) }),
      s("text", { x: PAD.left - 7, y: y(tick) + 4, "text-anchor": "end" }, y.label(tick)),
    );
  }
  let last = -Infinity;
  for (const tick of x.ticks.filter((one) => !whole || Number.isInteger(one))) {
    group.append(s("line", { class: "tick", x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4 }));
    if (x(tick) - last < 34) continue;
    last = x(tick);
    group.append(s("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, x.label(tick)));
  }
  group.append(
    s("path", { class: "frame", d: `M${PAD.left},${PAD.top}V${bottom}H${right}` }),
    s("text", { class: "title", x: (PAD.left + right) / 2, y: height - 6, "text-anchor": "middle" }, xName),
    s(
      "text",
      {
        class: "title",
        transform: `translate(13,${(PAD.top + bottom) / 2}) rotate(-90)`,
        "text-anchor": "middle",
      },
      yName,
    ),
  );
  return group;
}

/** Who chose the kernel's text or, of a tuning, its values. */
const AUTHORS = { model: "model", playbook: "playbook", tuner: "tuner", human: "person" };
const authorOf = (row) =>
  row.kind === "tune" ? "tuner" : AUTHORS[row.written_by] ? row.written_by : "unknown";

/** The mark of a candidate: its colour says who wrote it, its shape says how it was made, a cross that it failed. */
function mark(row, x, y, size = 5, { best = row.id === RUN.best, name = row.id } = {}) {
  const group = s("g", {
    class: `mark ${failed(row) ? "failed" : passed(row) ? "passed" : "open"} by-${authorOf(row)}${best ? " best" : ""}`,
    "data-c": name || null,
    transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`,
  });
  group.append(s("title", {}, `${row.id}: ${resultOf(row)}${row.summary ? "\n" + row.summary : ""}`));
  group.append(s("circle", { class: "halo", r: size + 4 }));
  if (failed(row)) {
    group.append(
      s("path", {
        class: "shape",
        d: `M${-size},${-size}L${size},${size}M${-size},${size}L${size},${-size}`,
      }),
    );
  } else {
    group.append(s("path", { class: "shape", d: SHAPES[row.kind]?.(size) ?? SHAPES.improve(size) }));
  }
  return group;
}

const SHAPES = {
  first: (r) => `M0,${-r * 1.25}L${r * 1.25},0L0,${r * 1.25}L${-r * 1.25},0Z`,
  start: (r) => `M0,${-r * 1.25}L${r * 1.25},0L0,${r * 1.25}L${-r * 1.25},0Z`,
  fix: (r) => `M${-r},${-r}H${r}V${r}H${-r}Z`,
  improve: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
  depart: (r) => `M0,${-r * 1.2}L${r * 1.15},${r * 0.9}H${-r * 1.15}Z`,
  tune: (r) =>
    `M${-r * 0.62},0a${r * 0.62},${r * 0.62} 0 1,0 ${r * 1.24},0a${r * 0.62},${r * 0.62} 0 1,0 ${-r * 1.24},0Z`,
};
const SHAPE_WORDS = [
  ["first", "first kernel"],
  ["fix", "fixes its parent"],
  ["improve", "speeds its parent up"],
  ["depart", "another structure"],
  ["tune", "other tunables"],
];

/** What shapes and colours mean; shown wherever marks are. */
function legend() {
  const item = (row, text, best = false) =>
    h(
      "span",
      {},
      s(
        "svg",
        { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" },
        mark(row, 0, 0, 4.5, { best, name: "" }),
      ),
      text,
    );
  const plain = { id: "", code: "PASSED", speedup: null, summary: "" };
  return h(
    "p",
    { class: "legend" },
    SHAPE_WORDS.map(([kind, text]) => item({ ...plain, kind }, text)),
    Object.entries(AUTHORS)
      .filter(([name]) => RUN.rows.some((row) => authorOf(row) === name))
      .map(([name, text]) =>
        item(
          { ...plain, kind: name === "tuner" ? "tune" : "improve", written_by: name },
          `colour: by ${text === "person" ? "a person" : `the ${text}`}`,
        ),
      ),
    item({ ...plain, kind: "improve", code: "FAILED" }, "failed"),
    item({ ...plain, kind: "improve", code: "" }, "not judged"),
    item({ ...plain, kind: "improve" }, "best of the run", true),
  );
}

/** Marks answer a click with their candidate's pane. */
function pickable(svg) {
  svg.addEventListener("click", (event) => {
    const found = event.target.closest("[data-c]");
    if (found?.dataset.c) select(found.dataset.c);
  });
  return svg;
}

/** One horizontal bar a line: `[label, value, text, class]`; labels may be nodes. */
function bars(lines, name) {
  const most = Math.max(...lines.map((one) => one[1]), 1e-12);
  return h(
    "table",
    { class: "bars" },
    h("caption", {}, name),
    h(
      "tbody",
      {},
      lines.map(([label, value, text, kind]) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, label),
          h(
            "td",
            {},
            s(
              "svg",
              { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
              s("rect", { class: kind ?? "plain", width: Math.max(0, (value / most) * 100), height: 10 }),
            ),
          ),
          h("td", { class: "figure" }, text),
        ),
      ),
    ),
  );
}
