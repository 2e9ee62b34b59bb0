// The pages work without this file. It writes times in the zone of the viewer, keeps the overview current, shows the
// hits of a search while they arrive, and copies secrets. It creates elements and sets texts; it never parses HTML.

import { found, lost, proceed, signInAgain } from "./connection.js";
import { breakable } from "./breaks.js";

const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const second = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "full" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

function part(text) {
  const span = document.createElement("span");
  span.textContent = text;
  return span;
}

// ago returns a time as a person compares it with now, as the function ago of the templates.
function ago(at) {
  const seconds = Math.floor(Math.abs(Date.now() - at) / 1000);
  if (seconds < 10) return "just now";
  const [n, unit] = seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [Math.floor(seconds / 60), "min"]
    : seconds < 86400 ? [Math.floor(seconds / 3600), "hour"] : [Math.floor(seconds / 86400), "day"];
  const text = n + " " + unit + (n > 1 && seconds >= 3600 ? "s" : "");
  return at > Date.now() ? "in " + text : text + " ago";
}

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    if ("clock" in time.dataset) time.textContent = clock.format(at);
    else if ("ago" in time.dataset) time.textContent = ago(at);
    else time.replaceChildren(part(date.format(at)), " ", part(("minute" in time.dataset ? clock : second).format(at)));
    time.title = full.format(at);
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
  figure.querySelector(".none").hidden = points.get(chart.id).length > 0;
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

function showSummary(parts) {
  const summary = document.querySelector("[data-summary]");
  if (summary.textContent === parts.map((part) => part.name).join(", ") + ".") return; // it may have the focus
  summary.replaceChildren(...parts.flatMap((part, i) => {
    const link = document.createElement("a");
    link.href = part.url;
    link.textContent = part.name;
    return i > 0 ? [", ", link] : [link];
  }), ".");
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
      if (response.type === "opaqueredirect") return signInAgain(); // the session has ended
      if (!response.ok) throw new Error(response.statusText);
      const live = await response.json();
      if (live.alert || state.classList.contains("lost")) return location.reload();
      for (const tile of live.tiles) {
        const box = document.getElementById("tile-" + tile.id);
        if (!box) continue;
        box.querySelector(".value").textContent = tile.value;
        box.querySelector(".note").textContent = tile.note;
      }
      showSummary(live.summary);
      const reason = document.querySelector("[data-reason]");
      if (reason) reason.textContent = live.reason;
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
setInterval(() => {
  for (const time of document.querySelectorAll("time[data-ago]")) time.textContent = ago(new Date(time.dateTime));
}, 30000);
document.querySelectorAll(".chart").forEach(watchPointer);
const live = document.querySelector("[data-live]");
if (live) keepCurrent(live);

// Search.

function cell(className, label) {
  const td = document.createElement("td");
  if (className) td.className = className;
  if (label) td.dataset.label = label;
  return td;
}

function plantRow(hit) {
  const row = document.createElement("tr");
  const id = cell("num");
  id.textContent = hit.id;
  if (hit.id.length > 10) document.querySelector("[data-hits]").classList.add("long");
  if (hit.damaged) {
    const mark = cell();
    mark.append(part("damaged"));
    mark.firstChild.className = "state bad";
    const advice = cell();
    advice.colSpan = 3;
    advice.textContent = "Run plantstore verify, and restore a backup.";
    row.append(mark, id, advice);
    return row;
  }
  const name = cell("name");
  name.dir = "auto";
  const link = document.createElement("a");
  link.href = "/plants/" + hit.id;
  link.textContent = hit.name.replace(/^(.{1000}).+/su, "$1…") || "(empty name)";
  name.append(link);
  const tag = cell();
  if (hit.tag !== undefined) {
    const mark = document.createElement("a");
    mark.className = "tag";
    mark.dir = "auto";
    mark.title = hit.tag;
    mark.href = "/plants?tag=" + encodeURIComponent(hit.tag);
    mark.textContent = hit.tag || "(empty)";
    tag.append(mark);
  }
  const at = cell();
  const time = document.createElement("time");
  time.dateTime = hit.created_at;
  time.dataset.minute = "";
  at.append(time);
  const by = cell();
  const who = document.createElement(hit.created_by ? "bdi" : "span");
  who.className = hit.created_by ? "breaks" : "help";
  who.append(...breakable(hit.created_by || "(the operator)"));
  by.append(who);
  row.append(name, id, tag, at, by);
  localTimes(row);
  return row;
}

// lines calls a function with each line of a stream of JSON lines. The id of a plant is a text: a 64-bit integer can
// exceed those of JavaScript.
async function lines(response, each) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) each(JSON.parse(part.replace(/^({"type":"hit","plant":{"id":)(-?\d+)/, '$1"$2"')));
  }
}

function searchAsYouType(form) {
  const body = document.querySelector("[data-hits] tbody");
  const status = document.querySelector("[data-progress]");
  const empty = document.querySelector("[data-empty]");
  const pager = document.querySelector(".pager");
  const exports = document.querySelectorAll("a[href^='/plants/export']");
  const exported = document.querySelector(".more summary");
  const stop = form.querySelector("[data-stop]");
  const number = new Intl.NumberFormat();
  let running, timer;

  async function search() {
    running?.abort();
    found(search);
    const query = new URLSearchParams({ name: form.elements.name.value, tag: form.elements.tag.value });
    if (!form.elements.name.value && !form.elements.tag.value) return;
    const current = (running = new AbortController());
    let hits = 0, fresh = true, told = 0;
    stop.hidden = false;
    if (pager) pager.hidden = true;
    history.replaceState(null, "", "/plants?" + query); // a link to this search, also after a reload
    for (const link of exports) link.search = "format=" + new URLSearchParams(link.search).get("format") + "&" + query;
    exported.textContent = "Export these";
    empty.hidden = true;
    status.textContent = "Searching…";
    try {
      const response = await fetch(form.dataset.search + "?" + query, { redirect: "manual", signal: current.signal });
      if (response.type === "opaqueredirect") throw new Error("the session has ended");
      if (!response.ok) throw new Error("the server responded with " + response.status);
      await lines(response, (line) => {
        if (current !== running) return;
        if (fresh) body.replaceChildren();
        fresh = false;
        if (line.type === "hit") {
          hits++;
          body.append(plantRow(line.plant));
        } else if (line.type === "again") { // the same search, now with the names first that begin with the text
          hits = 0;
          body.replaceChildren();
        } else if (line.type === "end") {
          const all = (line.reason === "complete" ? "" : "at least ") + number.format(line.hits);
          status.textContent = line.next ? number.format(hits) + " of " + all + " shown. "
            : all + " found; " + number.format(line.rows) + " plants searched.";
          if (line.next) {
            const more = document.createElement("a");
            more.href = "/plants?" + query + "&at=" + hits + "." + line.next;
            more.textContent = "Show the next";
            status.append(more);
          }
          empty.lastChild.textContent = "No plants found.";
          empty.hidden = hits > 0;
        } else if (Date.now() - told > 900) { // a screen reader reads each text
          told = Date.now();
          status.textContent = number.format(hits) + " found; " + number.format(line.rows) +
            (line.total > 0 ? " of " + number.format(line.total) : "") + " plants searched…";
        }
      });
    } catch (error) {
      if (current !== running) return;
      if (error.name === "AbortError") {
        status.textContent = "Stopped.";
      } else {
        status.textContent = "The search failed: " + error.message + ". It starts again when the server responds.";
        lost(search);
      }
    } finally {
      if (current === running) stop.hidden = true;
    }
  }

  form.addEventListener("input", (event) => {
    if (event.target.name === "id") return;
    clearTimeout(timer);
    timer = setTimeout(search, 250);
  });
  stop.addEventListener("click", () => running?.abort());
}

const searchForm = document.querySelector("[data-search]");
if (searchForm) searchAsYouType(searchForm);

// Settings.

const filter = document.querySelector("[data-filter]");
if (filter) {
  filter.hidden = filter.labels[0].hidden = false;
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    let found = 0;
    for (const section of document.querySelectorAll("[data-filtered]")) {
      const rows = [...section.querySelectorAll("tbody tr")];
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      section.hidden = rows.every((row) => row.hidden) && filter.value !== "";
      found += rows.filter((row) => !row.hidden).length;
    }
    document.querySelector("[data-found]").textContent = filter.value && found + " found";
  });
}

// Other pages.

// The response to a form has the address of the form, which has no page of its own.
const address = document.querySelector("[data-address]")?.dataset.address;
if (address && location.pathname !== address) history.replaceState(null, "", address);

// Without this script a dialog is a popover, which leaves the page behind it in use.
addEventListener("click", (event) => {
  const button = event.target.closest?.("button[popovertarget]");
  const dialog = button && document.getElementById(button.getAttribute("popovertarget"));
  if (!dialog) return;
  event.preventDefault();
  if (dialog.contains(button)) dialog.close();
  else dialog.showModal();
});

const question = document.querySelector("dialog[data-question]"); // in the page, without this script
question?.close();
question?.showModal();

// A menu closes like a dialog: with Escape, and with a click elsewhere.
addEventListener("keydown", (event) => {
  const menu = document.querySelector("details.more[open]");
  if (event.key !== "Escape" || !menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});
addEventListener("click", (event) => {
  const menu = document.querySelector("details.more[open]");
  if (menu && !menu.contains(event.target)) menu.open = false;
});

// What a person types replaces the suggested id.
const suggestion = document.querySelector("input[name=free]");
const newID = suggestion?.form.elements.id;
for (const event of ["focus", "click"]) newID?.addEventListener(event, () => {
  if (newID.value === suggestion.value) newID.select();
});

for (const button of document.querySelectorAll("[data-copy]")) {
  const secret = document.getElementById(button.dataset.copy);
  button.hidden = !navigator.clipboard; // only over TLS and on loopback
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(secret.textContent);
    button.textContent = "Copied";
  });
}

function reloadJobs() {
  if (document.querySelector("dialog[open], dialog:popover-open")) setTimeout(reloadJobs, 2000);
  else proceed(() => location.replace("/backups"));
}
if (document.querySelector("[data-busy]")) setTimeout(reloadJobs, 2000);
