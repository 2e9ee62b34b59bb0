// The pages work without this file. It writes times in the zone of the viewer, keeps the overview current, shows the
// hits of a search while they arrive, and copies secrets. It creates elements and sets texts; it never parses HTML.

const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.textContent = ("clock" in time.dataset ? clock : dateTime).format(at);
    time.title = time.dateTime;
  }
}

// Overview.

const points = new Map(); // by the id of a chart: the values of its lines over time

function showChart(chart) {
  const figure = document.getElementById("chart-" + chart.id);
  if (!figure) return;
  points.set(chart.id, chart.points || []);
  const [from, to] = figure.querySelectorAll(".axis time");
  from.dateTime = chart.from;
  to.dateTime = chart.to;
  figure.querySelector(".y.top").textContent = chart.top;
  figure.querySelector(".y.middle").textContent = chart.middle;
  chart.lines.forEach((line, i) => {
    figure.querySelector(".l" + i).setAttribute("d", line.path);
    if (i === 0) figure.querySelector(".area")?.setAttribute("d", line.area);
    figure.querySelector(".k" + i + " b").textContent = line.now;
  });
  localTimes(figure);
}

function watchPointer(figure) {
  const svg = figure.querySelector("svg");
  const tip = figure.querySelector(".tip");
  const cursor = figure.querySelector(".cursor");
  svg.addEventListener("pointermove", (event) => {
    const list = points.get(figure.id.slice("chart-".length)) || [];
    if (list.length === 0) return;
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * 600;
    const nearest = list.reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
    cursor.setAttribute("d", "M" + nearest.x + " 0V120");
    tip.textContent = clock.format(new Date(nearest.at)) + "  " + nearest.text.join(" · ");
    tip.hidden = false;
  });
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true;
    cursor.setAttribute("d", "");
  });
}

const liveEvery = 5000; // ms

async function keepCurrent(section) {
  const state = document.querySelector(".state");
  const text = state.lastChild;
  const known = text.textContent;
  const update = async () => {
    if (document.hidden) return;
    try {
      const response = await fetch(section.dataset.live, { redirect: "manual", signal: AbortSignal.timeout(liveEvery) });
      if (response.type === "opaqueredirect") return location.reload(); // the session has ended
      if (!response.ok) throw new Error(response.statusText);
      const live = await response.json();
      if (live.alert || state.classList.contains("lost")) return location.reload();
      for (const tile of live.tiles) {
        const box = document.getElementById("tile-" + tile.id);
        if (!box) continue;
        box.querySelector(".value").textContent = tile.value;
        box.querySelector(".note").textContent = tile.note;
      }
      live.charts.forEach(showChart);
      text.textContent = known;
    } catch {
      state.classList.add("warn", "lost");
      text.textContent = "The server does not respond";
    }
  };
  await update();
  setInterval(update, liveEvery);
  document.addEventListener("visibilitychange", update);
}

localTimes(document);
document.querySelectorAll(".chart").forEach(watchPointer);
const live = document.querySelector("[data-live]");
if (live) keepCurrent(live);
