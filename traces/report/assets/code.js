// Source text with colours, and the difference of two sources. Text goes in, nodes come out.

const WORDS = new Set(
  (
    "alignas auto bool break case char class const constexpr continue default delete do double " +
    "else enum extern false float for if inline int long namespace new noexcept nullptr operator private public " +
    "return short signed sizeof static static_assert static_cast reinterpret_cast struct switch template this true " +
    "typedef typename union unsigned using virtual void volatile while half __half half2 float2 float4 int2 int4 " +
    "uint4 dim3 size_t int8_t uint8_t int32_t uint32_t int64_t uint64_t cudaStream_t"
  ).split(" "),
);
const CUDA =
  /^(?:__\w+__|__\w+|threadIdx|blockIdx|blockDim|gridDim|warpSize|atomic\w+|cuda[A-Z]\w+|wmma|cooperative_groups)$/;
const TOKEN = new RegExp(
  [
    "(?<comment>//[^\\n]*|/\\*[^]*?(?:\\*/|$))",
    "(?<string>\"(?:\\\\.|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'?)",
    "(?<directive>^[ \\t]*#[^\\n]*)",
    "(?<number>\\b(?:0[xX][0-9a-fA-F']+|\\d[\\d']*(?:\\.\\d*)?(?:[eE][+-]?\\d+)?)[fFuUlLhH]*)",
    "(?<word>[A-Za-z_]\\w*)",
  ].join("|"),
  "gm",
);

/** Returns the lines of a source, each a list of nodes. */
function highlight(text) {
  const lines = [[]];
  const put = (piece, kind) =>
    piece.split("\n").forEach((part, index) => {
      if (index) lines.push([]);
      if (part) lines.at(-1).push(kind ? h("span", { class: "hl-" + kind }, part) : part);
    });
  let end = 0;
  for (const found of text.matchAll(TOKEN)) {
    put(text.slice(end, found.index));
    const groups = found.groups;
    let kind = Object.keys(groups).find((name) => groups[name] !== undefined);
    if (kind === "word") kind = WORDS.has(found[0]) ? "keyword" : CUDA.test(found[0]) ? "cuda" : "";
    put(found[0], kind);
    end = found.index + found[0].length;
  }
  put(text.slice(end));
  return lines;
}

/** A numbered listing; `marked` lines, such as a bottleneck's, stand out. */
function listing(text, marked = new Map()) {
  const lines = highlight(text.replace(/\n$/, ""));
  return h(
    "pre",
    { class: "code", tabindex: 0 },
    lines.map((nodes, index) =>
      h(
        "span",
        { class: marked.has(index + 1) ? "line hit" : "line", title: marked.get(index + 1) },
        h("span", { class: "number" }, String(index + 1)),
        h("span", { class: "text" }, nodes, "\n"),
      ),
    ),
  );
}

/** Plain text, wrapped, as it is. */
const plainText = (text) => h("pre", { class: "plain", tabindex: 0 }, text);

const MOST_CELLS = 6e6;

/** Returns `[sign, line, left number, right number]` of every line of either text. */
function diffLines(left, right) {
  let top = 0;
  while (top < left.length && top < right.length && left[top] === right[top]) top++;
  let tail = 0;
  while (tail < left.length - top && tail < right.length - top && left.at(-1 - tail) === right.at(-1 - tail))
    tail++;
  const a = left.slice(top, left.length - tail),
    b = right.slice(top, right.length - tail);
  const found = left.slice(0, top).map((line, index) => [" ", line, index + 1, index + 1]);
  let i = 0,
    j = 0;
  const drop = () => found.push(["-", a[i], top + ++i, 0]);
  const add = () => found.push(["+", b[j], 0, top + ++j]);
  if (a.length * b.length <= MOST_CELLS) {
    // Longest common part of what differs, filled from the end.
    const width = b.length + 1,
      common = new Uint16Array((a.length + 1) * width);
    for (let p = a.length - 1; p >= 0; p--) {
      for (let q = b.length - 1; q >= 0; q--) {
        common[p * width + q] =
          a[p] === b[q]
            ? common[(p + 1) * width + q + 1] + 1
            : Math.max(common[(p + 1) * width + q], common[p * width + q + 1]);
      }
    }
    while (i < a.length && j < b.length) {
      if (a[i] === b[j]) found.push([" ", a[i], top + ++i, top + ++j]);
      else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) drop();
      else add();
    }
  }
  while (i < a.length) drop();
  while (j < b.length) add();
  for (let k = tail; k > 0; k--) {
    found.push([" ", left.at(-k), left.length - k + 1, right.length - k + 1]);
  }
  return found;
}

const AROUND = 3;

/** The difference of two sources, with a few lines around each change. */
function difference(left, right, leftName, rightName) {
  const lines = diffLines(left.replace(/\n$/, "").split("\n"), right.replace(/\n$/, "").split("\n"));
  const changed = lines.flatMap(([sign], index) => (sign === " " ? [] : [index]));
  if (!changed.length) return h("p", {}, `${rightName} has the same source as ${leftName}.`);
  const shown = new Set(
    changed.flatMap((index) => Array.from({ length: 2 * AROUND + 1 }, (_, k) => index - AROUND + k)),
  );
  const rows = [];
  let skipped = 0;
  const skip = () => {
    if (skipped) rows.push(h("span", { class: "line gap" }, `  ${skipped} equal lines\n`));
    skipped = 0;
  };
  lines.forEach(([sign, line, from, to], index) => {
    if (!shown.has(index)) {
      skipped++;
      return;
    }
    skip();
    const kind = { "+": "line added", "-": "line dropped", " ": "line" }[sign];
    rows.push(
      h(
        "span",
        { class: kind },
        h("span", { class: "number" }, from ? String(from) : ""),
        h("span", { class: "number" }, to ? String(to) : ""),
        h("span", { class: "text" }, sign + " " + line + "\n"),
      ),
    );
  });
  skip();
  const count = (sign) => lines.filter(([one]) => one === sign).length;
  return h(
    "div",
    {},
    h("p", {}, `${leftName} → ${rightName}: ${count("+")} lines added, ${count("-")} removed`),
    h("pre", { class: "code", tabindex: 0 }, rows),
  );
}
