// The page itself: views, keys, the pane's width, light and dark, and loading again while a run goes on.

const VIEWS = {
  progress: ["Overview", viewProgress],
  tree: ["Lineage", viewTree],
  candidates: ["Candidates", viewTable],
  timeline: ["Timeline", viewTimeline],
  cost: ["Time and cost", viewCost],
  rounds: ["Rounds", viewRounds],
  hints: ["Hints", viewHints],
  compare: ["Compare", viewCompare],
};
const KEYS = [
  ["1 … 8", "views"],
  ["[ ]", "panes of the candidate"],
  ["j k  ↓ ↑", "next, previous candidate"],
  ["← →", "parent, first child"],
  ["b", "the best candidate"],
  ["x", "next horizontal axis"],
  ["+ −", "zoom of the timeline"],
  ["/", "filter candidates"],
  ["t", "light, dark, as the system"],
  ["Escape", "close"],
  ["?", "these keys"],
];
const RELOAD_MS = 3000;
/** What this browser keeps beside the address. A page from disk may be allowed to keep nothing. */
const kept = {
  get: (key) => {
    try {
      return localStorage.getItem("cuda-llm." + key);
    } catch {
      return null;
    }
  },
  set: (key, value) => {
    try {
      localStorage.setItem("cuda-llm." + key, value);
    } catch {
      /* not kept */
    }
  },
};

function build() {
  document.body.append(
    h(
      "header",
      { id: "top" },
      RUN.home ? h("a", { href: RUN.home }, "all runs") : "",
      h("h1", {}, RUN.task || "run"),
      h("span", { class: "soft" }, RUN.run_id),
      h(
        "span",
        { class: "tag " + RUN.time_source },
        TIME_WORD === "modelled" ? "times are modelled" : `times are ${TIME_WORD}`,
      ),
      h("span", { class: "tag" }, RUN.device),
      h("span", { class: "tag" }, RUN.state_text),
      RUN.live ? h("span", { class: "tag live", role: "status" }, "kept current") : "",
      h("button", { type: "button", onclick: nextTheme, title: "light or dark (t)" }, "◐"),
      h("button", { type: "button", onclick: toggleHelp, title: "keys (?)" }, "?"),
    ),
    RUN.missing.length
      ? h(
          "p",
          { class: "missing", role: "alert" },
          `Not all of this run could be read: ${RUN.missing.slice(0, 4).join(" · ")}${RUN.missing.length > 4 ? ` · and ${RUN.missing.length - 4} more` : ""}`,
        )
      : "",
    h(
      "nav",
      {},
      h(
        "div",
        { role: "tablist", "aria-label": "views" },
        Object.entries(VIEWS).map(([name, [title]], index) =>
          h(
            "button",
            {
              type: "button",
              role: "tab",
              id: "view-" + name,
              "aria-controls": "view",
              onclick: () => {
                state.view = name;
                show();
              },
            },
            h("kbd", {}, String(index + 1)),
            " ",
            title,
          ),
        ),
      ),
    ),
    h(
      "main",
      {},
      h("div", { id: "view", role: "tabpanel", tabindex: 0 }),
      h("div", {
        id: "divider",
        role: "separator",
        tabindex: 0,
        "aria-label": "width of the pane",
        "aria-orientation": "vertical",
      }),
      h("aside", { id: "pane", "aria-label": "candidate" }),
    ),
    h(
      "dialog",
      { id: "help" },
      h("h2", {}, "Keys"),
      h(
        "table",
        { class: "facts" },
        h(
          "tbody",
          {},
          KEYS.map(([key, text]) =>
            h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, text)),
          ),
        ),
      ),
    ),
  );
  dragDivider();
}

/** Draws the chosen view anew. */
function show() {
  if (!VIEWS[state.view]) state.view = "progress";
  writeState();
  for (const name of Object.keys(VIEWS)) {
    const tab = document.getElementById("view-" + name);
    tab.setAttribute("aria-selected", String(name === state.view));
    tab.tabIndex = name === state.view ? 0 : -1;
  }
  const box = document.getElementById("view");
  box.setAttribute("aria-labelledby", "view-" + state.view);
  box.replaceChildren(...[VIEWS[state.view][1]()].flat(Infinity).filter(Boolean));
  markSelected();
}

function select(id) {
  state.c = ROWS.has(id) ? id : "";
  writeState();
  markSelected(true);
  showCandidate();
}

function markSelected(reveal = false) {
  for (const one of document.querySelectorAll("[data-c], [data-to]")) {
    one.classList.toggle(
      "selected",
      Boolean(state.c) && (one.dataset.c === state.c || one.dataset.to === state.c),
    );
  }
  if (reveal && state.c)
    document
      .querySelector(`#view [data-c="${CSS.escape(state.c)}"]`)
      ?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** The candidate `step` places on, in the order on the screen. */
function move(step) {
  const rows = state.view === "candidates" ? shownRows() : RUN.rows;
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.id === state.c);
  select(rows[now < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, now + step))].id);
}

function movePane(step) {
  const names = Object.keys(PANES);
  if (state.c) choosePane(names[(names.indexOf(state.pane) + step + names.length) % names.length]);
}

function toggleHelp() {
  const help = document.getElementById("help");
  if (help.open) help.close();
  else help.showModal();
}

function nextTheme() {
  const order = ["", "dark", "light"];
  setTheme(order[(order.indexOf(kept.get("theme") ?? "") + 1) % order.length]);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  kept.set("theme", theme);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input[type=search]")) {
    if (event.key === "Escape" || event.key === "Enter") event.target.blur();
    return;
  }
  if (event.target.id === "divider" && event.key.startsWith("Arrow")) return;
  const names = Object.keys(VIEWS),
    row = ROWS.get(state.c);
  const inText = event.target.closest("pre, #pane-body") && event.key.startsWith("Arrow");
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    ArrowLeft: () =>
      event.target.matches("[role=tab]") ? nextTab(event.target, -1) : row?.parent && select(row.parent),
    ArrowRight: () =>
      event.target.matches("[role=tab]")
        ? nextTab(event.target, 1)
        : row && select(RUN.rows.find((one) => one.parent === row.id)?.id ?? row.id),
    "[": () => movePane(-1),
    "]": () => movePane(1),
    b: () => RUN.best && select(RUN.best),
    x: nextAxis,
    t: nextTheme,
    "?": toggleHelp,
    "+": () => state.view === "timeline" && setZoom(2),
    "-": () => state.view === "timeline" && setZoom(0.5),
    "/": () => {
      state.view = "candidates";
      show();
      document.getElementById("filter").focus();
    },
    Escape: () => select(""),
  };
  const found = inText
    ? null
    : names[Number(event.key) - 1]
      ? () => {
          state.view = names[Number(event.key) - 1];
          show();
        }
      : keys[event.key];
  if (!found || (document.getElementById("help").open && event.key !== "?")) return;
  event.preventDefault();
  found();
}

function nextTab(tab, step) {
  const tabs = [...tab.parentElement.children];
  const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
  const id = next.id;
  next.click();
  // A pane's tabs are drawn anew.
  requestAnimationFrame(() => document.getElementById(id)?.focus());
}

function dragDivider() {
  const divider = document.getElementById("divider");
  const set = (share) => {
    const width = Math.min(75, Math.max(20, share));
    document.documentElement.style.setProperty("--pane", width + "%");
    kept.set("pane", String(width));
    return width;
  };
  let width = set(Number(kept.get("pane")) || 44);
  divider.addEventListener("pointerdown", (event) => divider.setPointerCapture(event.pointerId));
  divider.addEventListener("pointermove", (event) => {
    if (divider.hasPointerCapture(event.pointerId)) width = set(100 - (event.clientX / innerWidth) * 100);
  });
  divider.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") width = set(width + 2);
    if (event.key === "ArrowRight") width = set(width - 2);
  });
}

/** Loads the page again while the run goes on, but not under the hands of its reader. */
function keepCurrent() {
  let touched = -Infinity;
  for (const kind of ["keydown", "pointerdown", "wheel"])
    addEventListener(
      kind,
      () => {
        touched = performance.now();
      },
      { passive: true },
    );
  setInterval(() => {
    const busy = performance.now() - touched < RELOAD_MS || String(getSelection());
    if (!busy && !document.hidden) location.reload();
  }, RELOAD_MS);
}

setTheme(kept.get("theme") ?? "");
readState();
build();
show();
showCandidate();
addEventListener("keydown", onKey);
addEventListener("hashchange", () => {
  readState();
  show();
  showCandidate();
});
if (RUN.live) keepCurrent();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
