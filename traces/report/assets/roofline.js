// The roofline of the run's GPU with the task's ceiling at each size, and where a kernel stands.

/** Classic roofline where the task does arithmetic; bytes over time where it only moves them. */
function rooflinePlot(view) {
  const roof = RUN.roofline;
  if (!roof) return h("p", { class: "note" }, `No roofline: ${RUN.roofline_note}.`);
  const points = roof.ceilings
    .map((ceiling) => {
      const size = view.times.find((one) => one.label === ceiling.label);
      return { ceiling, us: size?.us ?? null };
    })
    .filter((one) => isNumber(one.us));
  if (!points.length) return h("p", { class: "note" }, "No roofline: no size of this task was timed.");
  return roof.ceilings.some((one) => one.flops > 0)
    ? arithmeticPlot(view, roof, points)
    : bandwidthPlot(roof, points);
}

const WIDE = 560,
  HIGH = 330;

function arithmeticPlot(view, roof, points) {
  const ridge = roof.gflops / roof.gb_s;
  const wanted = points.map(({ ceiling }) => ceiling.flops / ceiling.bytes);
  const largest = points.at(-1);
  const dram = view.profile?.launches.reduce(
    (sum, one) => sum + (isNumber(one.dram_bytes) ? one.dram_bytes : NaN),
    0,
  );
  const own = dram > 0 ? largest.ceiling.flops / dram : null;
  const rate = ({ ceiling, us: time }) => ceiling.flops / time / 1e3;
  const xs = [...wanted.map((one) => one * 1.25), ridge * 4, ...(own ? [own] : [])].filter((one) => one > 0);
  const x = logarithmic(Math.min(...xs, ridge) / 4, Math.max(...xs), PAD.left, WIDE - PAD.right);
  const ys = points.map(rate).filter((one) => one > 0);
  const y = logarithmic(Math.min(...ys) / 2, roof.gflops * 2, HIGH - PAD.bottom, PAD.top);
  const low = Math.max(x.ticks.length ? Math.min(...xs, ridge) / 4 : 1, 1e-6);
  const floor = Math.min(...ys) / 2;
  // Below the plot's floor the slope is cut off.
  const from = Math.max(low, floor / roof.gb_s);
  const svg = frame(`roofline of ${roof.hardware}`);
  svg.append(
    axes(WIDE, HIGH, x, y, "operations a byte of DRAM traffic", `GFLOP/s (${TIME_WORD})`),
    s("path", {
      class: "roof",
      d: `M${x(from)},${y(from * roof.gb_s)}L${x(ridge)},${y(roof.gflops)}H${WIDE - PAD.right}`,
    }),
    s(
      "text",
      { class: "soft", x: WIDE - PAD.right - 4, y: y(roof.gflops) - 6, "text-anchor": "end" },
      `${digits(roof.gflops / 1000)} TFLOP/s ${roof.precision}`,
    ),
    s(
      "text",
      { class: "soft", x: x(Math.sqrt(from * ridge)) + 8, y: y(Math.sqrt(from * ridge) * roof.gb_s) + 16 },
      `${digits(roof.gb_s, 4)} GB/s`,
    ),
  );
  points.forEach((point, index) => {
    const at = x(wanted[index]),
      top = y(point.ceiling.flops / point.ceiling.time_us / 1e3),
      here = y(rate(point));
    svg.append(
      s("line", { class: "reach", x1: at, x2: at, y1: top, y2: here }),
      s("path", { class: "ceiling", d: `M${at - 8},${top}H${at + 8}` }),
      s("circle", { class: "point", cx: at, cy: here, r: 4 }, s("title", {}, pointTitle(point))),
    );
  });
  labelPoints(
    svg,
    points,
    points.map((_, index) => x(wanted[index])),
    points.map((point) => y(rate(point))),
  );
  if (own) {
    svg.append(
      s(
        "path",
        { class: "own-bytes", d: SHAPES.fix(4), transform: `translate(${x(own)},${y(rate(largest))})` },
        s("title", {}, `with the ${digits(dram / 1e6)} MB it moved itself`),
      ),
    );
  }
  return [
    svg,
    h(
      "p",
      { class: "note" },
      "Circles: this kernel at each size, by the bytes the task must move. Bars: the task's ceiling there, at published peaks." +
        (own ? " Square: the largest size by the DRAM bytes that the kernel itself moved." : ""),
    ),
    reachTable(points),
  ];
}

function bandwidthPlot(roof, points) {
  const rate = ({ ceiling, us: time }) => ceiling.bytes / time / 1e3;
  const x = scaleFor(
    points.map(({ ceiling }) => ceiling.bytes / 1e6),
    PAD.left + 12,
    WIDE - PAD.right - 20,
    3,
  );
  const y = linear(0, Math.max(roof.gb_s, ...points.map(rate)) * 1.12, HIGH - PAD.bottom, PAD.top);
  const svg = frame(`throughput on ${roof.hardware}`);
  svg.append(
    axes(WIDE, HIGH, x, y, "bytes that the task must move (MB)", `GB/s (${TIME_WORD})`),
    s("path", { class: "roof", d: `M${PAD.left},${y(roof.gb_s)}H${WIDE - PAD.right}` }),
    s(
      "text",
      { class: "soft", x: PAD.left + 6, y: y(roof.gb_s) - 6 },
      `peak of DRAM: ${digits(roof.gb_s, 4)} GB/s`,
    ),
  );
  for (const point of points) {
    const at = x(point.ceiling.bytes / 1e6);
    svg.append(
      s("path", {
        class: "ceiling",
        d: `M${at - 8},${y(point.ceiling.bytes / point.ceiling.attainable_us / 1e3)}H${at + 8}`,
      }),
      s("circle", { class: "point", cx: at, cy: y(rate(point)), r: 4 }, s("title", {}, pointTitle(point))),
    );
  }
  return [
    svg,
    h(
      "p",
      { class: "note" },
      "The task does no arithmetic, so the roof is bandwidth. Circles: this kernel at each size. Bars: what one launch can reach there. " +
        "A size that fits in L2 may pass the peak of DRAM.",
    ),
    reachTable(points),
  ];
}

const frame = (name) =>
  s("svg", { class: "plot", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": name });
const pointTitle = ({ ceiling, us: time }) =>
  `${ceiling.label}: ${us(time)}, least ${us(ceiling.time_us)} at published peaks`;

/** The smallest and the largest size by name; those between would cover each other. */
function labelPoints(svg, points, xs, ys) {
  const last = points.length - 1;
  const close = last > 0 && Math.abs(xs[0] - xs[last]) < 60 && Math.abs(ys[0] - ys[last]) < 34;
  if (close) {
    svg.append(
      s(
        "text",
        { class: "soft", x: xs[0] + 12, y: Math.max(...ys) + 14 },
        `${points[0].ceiling.label} … ${points[last].ceiling.label}`,
      ),
    );
    return;
  }
  for (const index of new Set([0, last])) {
    const right = xs[index] > WIDE * 0.7;
    svg.append(
      s(
        "text",
        {
          class: "soft",
          x: xs[index] + (right ? -9 : 9),
          y: ys[index] + (index ? 20 : 4),
          "text-anchor": right ? "end" : "start",
        },
        points[index].ceiling.label,
      ),
    );
  }
}

function reachTable(points) {
  return h(
    "table",
    { class: "rows narrow" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        [
          "size",
          `time, ${TIME_WORD}`,
          "least at published peaks",
          "attainable, one launch",
          "of attainable",
          "bound",
        ].map((one) => h("th", {}, one)),
      ),
    ),
    h(
      "tbody",
      {},
      points.map(({ ceiling, us: time }) =>
        h(
          "tr",
          {},
          h("td", {}, ceiling.label),
          [
            us(time),
            us(ceiling.time_us),
            us(ceiling.attainable_us),
            `${digits((ceiling.attainable_us / time) * 100, 3)} %`,
          ].map((one) => h("td", { class: "figure" }, one)),
          h("td", {}, ceiling.bound),
        ),
      ),
    ),
  );
}
