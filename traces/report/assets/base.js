// Data, small helpers, and the state that a link carries. All text reaches the page as text nodes.

const DATA = JSON.parse(document.getElementById("data").textContent);
const RUN = DATA.run;
const ROWS = new Map(RUN.rows.map((row) => [row.id, row]));
const HINTS = new Map(RUN.hints.map((hint) => [hint.id, hint]));
const SVG = "http://www.w3.org/2000/svg";

/** What is looked at: kept in the address, so that a link and a reload show it again. */
const AT_FIRST = {
  view: location.pathname === "/compare" ? "compare" : "progress",
  c: "",
  pane: "about",
  x: "evaluation",
  sort: "",
  filter: "",
};
const state = { ...AT_FIRST };

function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  Object.assign(state, AT_FIRST);
  for (const key of Object.keys(state)) {
    if (given.has(key)) state[key] = given.get(key);
  }
  if (!ROWS.has(state.c)) state.c = "";
}

function writeState() {
  const kept = Object.entries(state).filter(([, value]) => value);
  history.replaceState(null, "", "#" + new URLSearchParams(kept));
}

/** An element with attributes, listeners (`onclick`) and children; strings become text. */
function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same of SVG. */
function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== ""));
  return element;
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const digits = (value, count = 3) =>
  Number(value.toPrecision(count)).toLocaleString("en-US", { maximumFractionDigits: 6 });

function times(value) {
  return isNumber(value) ? (value >= 100 ? digits(value, 4) : value.toFixed(2)) + "×" : "";
}

function us(value) {
  if (!isNumber(value)) return value === null || value === undefined ? "" : String(value);
  return Math.abs(value) < 1000 ? digits(value) + " µs" : digits(value / 1000) + " ms";
}

function seconds(value) {
  if (!isNumber(value)) return "";
  if (value < 0.0995) return digits(value * 1000, 2) + " ms";
  if (value < 120) return digits(value) + " s";
  if (value < 7200) return digits(value / 60) + " min";
  return digits(value / 3600) + " h";
}

const dollars = (value) =>
  isNumber(value) ? "$" + (value >= 1 ? value.toFixed(2) : digits(value)) : "price unknown";
const tokens = (value) =>
  value < 1000 ? String(value) : value < 999500 ? digits(value / 1000) + "k" : digits(value / 1e6) + "M";

/** What stands for a candidate's result everywhere. */
function resultOf(row) {
  if (row.code === "PASSED") return row.speedup ? times(row.speedup) : "correct, not timed";
  return row.code || row.state;
}

const passed = (row) => row.code === "PASSED";
const failed = (row) => Boolean(row.code) && row.code !== "PASSED";

/** A link to a candidate; a name without a folder stays a name. */
function link(id) {
  if (!id) return "";
  if (!ROWS.has(id)) return id;
  return h(
    "a",
    {
      href: "#" + new URLSearchParams({ ...state, c: id }),
      class: "id",
      onclick: (event) => {
        event.preventDefault();
        select(id);
      },
    },
    id,
  );
}

/** Splits a text at ids of candidates, and links them. */
function linked(text) {
  return text.split(/\b(r\d+-[ct]\d+)\b/).map((part, index) => (index % 2 ? link(part) : part));
}

let unpacked = null;

/** Candidates and texts, unpacked once. */
function unpack() {
  unpacked ??= (async () => {
    const packed = document.getElementById("packed").textContent;
    const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  })();
  return unpacked;
}

/** A text of a pane; empty where there is none. */
function textOf(whole, name) {
  return (whole.texts[name] ?? []).map((line) => whole.lines[line]).join("\n");
}

const TIME_WORD = RUN.time_source || "of unknown source";
