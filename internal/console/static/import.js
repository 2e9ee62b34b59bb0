// The import works without this file: the form sends the file, and the page of an import shows its result. This module
// accepts a dropped file and shows the progress. It sets texts; it never parses HTML.

import { breakable } from "./breaks.js";

const number = new Intl.NumberFormat();
const size = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const pollEvery = 500; // ms
const tellEvery = 2000; // ms; a screen reader reads each text

const bytes = (n) => (n < 1 << 20 ? size.format(n / 1024) + " KiB" : size.format(n / (1 << 20)) + " MiB");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// show writes the state of an import into a section.
function show(section, state) {
  for (const value of section.querySelectorAll("[data-count]")) value.textContent = number.format(state[value.dataset.count]);
  const body = section.querySelector("[data-rejects] tbody");
  for (const reject of (state.rejects || []).slice(body.rows.length)) body.append(rejectRow(reject));
  section.querySelector("[data-rejects]").hidden = body.rows.length === 0;
  section.querySelector("[data-more]").hidden = state.conflicting + state.invalid <= body.rows.length;
}

function rejectRow(reject) {
  const row = document.createElement("tr");
  const line = row.insertCell();
  line.className = "num";
  line.dataset.label = "Line";
  line.textContent = reject.line;
  const reason = row.insertCell();
  reason.className = "breaks";
  reason.dir = "auto";
  reason.append(...breakable(reject.reason));
  const text = row.insertCell();
  text.className = "mono breaks";
  text.dir = "auto";
  text.append(...breakable(reject.text || ""));
  return row;
}

function showProgress(section, sent, of, told) {
  const progress = section.querySelector("progress");
  if (of > 0) progress.max = of;
  progress.value = sent;
  if (Date.now() - told < tellEvery) return told;
  section.querySelector("[data-status]").textContent =
    bytes(sent) + (of > 0 ? " of " + bytes(of) + ", " + Math.floor((100 * sent) / of) + "%" : "") + " received.";
  return Date.now();
}

// stateOf returns the state of an import; undefined if it is not known.
async function stateOf(id) {
  const response = await fetch("/import/" + id + "/live", { redirect: "manual", signal: AbortSignal.timeout(10000) });
  if (response.type === "opaqueredirect") throw new Error("the session has ended");
  return response.ok ? response.json() : undefined;
}

// watch shows an import of another page until its end.
async function watch(section) {
  let told = 0;
  for (;;) {
    try {
      const state = await stateOf(section.dataset.watch);
      if (!state || state.state !== "running") return location.reload();
      show(section, state);
      told = showProgress(section, state.bytes, state.total, told);
    } catch {
      section.querySelector("[data-status]").textContent = "The server does not respond.";
    }
    await sleep(pollEvery);
  }
}

const random = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");

// upload sends a file. It returns the response; undefined without one.
function upload(file, url, request, onProgress) {
  return new Promise((resolve) => {
    request.open("POST", url);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("Accept", "application/json");
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded));
    request.addEventListener("loadend", () => resolve(answer(request)));
    request.send(file);
  });
}

function answer(request) {
  if (request.status === 0) return undefined;
  if (new URL(request.responseURL).pathname === "/sign-in") return { message: "The session has ended. Sign in again, then import the file again." };
  try {
    return JSON.parse(request.responseText);
  } catch {
    return { message: "The server responded with " + request.status + "." };
  }
}

function runImports(form) {
  const section = document.querySelector("[data-run]");
  const fault = form.querySelector("[data-fault]");
  const lost = section.querySelector("[data-lost]");
  const running = section.querySelector("[data-running]");
  const again = section.querySelector("[data-again]");
  const other = section.querySelector("[data-other]");
  const cancel = section.querySelector("[data-cancel]");
  let current; // the running import

  function reset(file) {
    form.hidden = fault.hidden = true;
    lost.hidden = again.hidden = other.hidden = true;
    section.hidden = running.hidden = false;
    section.querySelector("[data-rejects] tbody").replaceChildren();
    show(section, { created: 0, existing: 0, conflicting: 0, invalid: 0 });
    const title = section.querySelector("[data-title]");
    const name = document.createElement("bdi");
    name.className = "breaks";
    name.append(...breakable(file.name));
    title.replaceChildren("Import of ", name);
    title.focus();
    cancel.querySelector("button").disabled = false;
  }

  async function poll(run) {
    while (current === run) {
      await sleep(pollEvery);
      try {
        const state = await stateOf(run.id);
        if (current === run && state) run.last = state;
        if (current === run && state) show(section, state);
      } catch { /* the upload reports a lost connection */ }
    }
  }

  // result returns the state of an import that has ended; undefined if the server does not respond.
  async function result(run) {
    for (let tries = 0; tries < 10; tries++) {
      try {
        const state = await stateOf(run.id);
        if (!state || state.state !== "running") return state;
      } catch { /* the server may be starting */ }
      await sleep(pollEvery);
    }
    return undefined;
  }

  async function start(file) {
    if (current) return;
    const run = (current = { id: random(), request: new XMLHttpRequest(), file });
    reset(file);
    let told = 0;
    const query = new URLSearchParams({ name: file.name, format: form.elements.format.value, "on-conflict": form.elements["on-conflict"].value });
    const polling = poll(run);
    let response = await upload(file, "/import/" + run.id + "?" + query, run.request, (sent) => {
      told = showProgress(section, sent, file.size, told);
    });
    if (!response?.id && !response?.message) response = await result(run);
    current = undefined;
    if (response?.id && response.state !== "running") return location.assign("/import/" + run.id);
    running.hidden = true;
    if (response?.message) {
      section.hidden = true;
      form.hidden = fault.hidden = false;
      fault.textContent = response.message;
      return;
    }
    lost.textContent = "The connection to the server was lost. The counted plants are stored, and possibly some more. " +
      "Import the same file again when the server responds: stored plants count as existing.";
    lost.hidden = again.hidden = other.hidden = false;
    again.onclick = () => start(file);
    await polling;
  }

  cancel.addEventListener("submit", async (event) => {
    event.preventDefault();
    const run = current;
    if (!run) return;
    cancel.querySelector("button").disabled = true;
    section.querySelector("[data-status]").textContent = "Canceling…";
    try {
      await fetch("/import/" + run.id + "/cancel", { method: "POST", body: new URLSearchParams(), redirect: "manual" });
    } catch { /* the end of the upload cancels the import too */ }
    run.request.abort();
  });

  addEventListener("beforeunload", (event) => { if (current) event.preventDefault(); });

  const input = form.elements.file;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.files.length > 0) start(input.files[0]);
  });
  const drop = form.querySelector("[data-drop]");
  const over = (event, is) => {
    event.preventDefault();
    drop.classList.toggle("over", is);
  };
  for (const name of ["dragenter", "dragover"]) addEventListener(name, (event) => over(event, true));
  addEventListener("dragleave", (event) => over(event, event.relatedTarget !== null));
  addEventListener("drop", (event) => {
    over(event, false);
    const files = event.dataTransfer.files;
    if (form.hidden || files.length === 0) return;
    if (files.length > 1) {
      fault.textContent = "Drop one file at a time.";
      fault.hidden = false;
      return;
    }
    start(files[0]);
  });
}

const form = document.querySelector("[data-import]");
if (form) runImports(form);
const watched = document.querySelector("[data-watch]");
if (watched) watch(watched);
