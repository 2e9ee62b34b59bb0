// The import works without this file: the form sends the file, and the page of an import shows its progress when it is
// loaded again. This module accepts a dropped file and shows the progress. It sets texts; it never parses HTML.

const number = new Intl.NumberFormat();
const size = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const pollEvery = 500; // ms
const tellEvery = 2000; // ms; a screen reader reads each text

const bytes = (n) => (n < 1 << 20 ? size.format(n / 1024) + " KiB" : size.format(n / (1 << 20)) + " MiB");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// progressOf returns a function that shows how much of a file has been sent or read.
function progressOf(section, verb) {
  const progress = section.querySelector("progress");
  let told = 0;
  return (done, of) => {
    if (of > 0) progress.max = of;
    progress.value = done;
    if (Date.now() - told < tellEvery) return;
    told = Date.now();
    section.querySelector("[data-status]").textContent =
      bytes(done) + (of > 0 ? " of " + bytes(of) + ", " + Math.floor((100 * done) / of) + "%" : "") + " " + verb + ".";
  };
}

// watch shows a step of an import until its end.
async function watch(section) {
  const state = section.dataset.state;
  const show = progressOf(section, state === "receiving" ? "received" : "read");
  for (;;) {
    await sleep(pollEvery);
    try {
      const response = await fetch("/import/" + section.dataset.watch + "/live", { redirect: "manual", signal: AbortSignal.timeout(10000) });
      const now = response.ok ? await response.json() : {};
      if (now.state !== state) return location.reload();
      for (const value of document.querySelectorAll("[data-count]")) value.textContent = number.format(now[value.dataset.count]);
      show(now.bytes, now.total);
    } catch {
      section.querySelector("[data-status]").textContent = "The server does not respond.";
    }
  }
}

// failure returns why a file was not received.
function failure(request) {
  if (request.status === 0) return "The connection to the server was lost. Nothing is stored. Send the file again when the server responds.";
  if (new URL(request.responseURL).pathname === "/sign-in") return "The session has ended. Sign in again, then choose the file again.";
  try {
    return JSON.parse(request.responseText).message;
  } catch {
    return "The server responded with " + request.status + ".";
  }
}

function sendFiles(form) {
  const fault = form.querySelector("[data-fault]");
  const running = form.querySelector("[data-running]");
  const controls = form.querySelectorAll("[data-drop], .primary");
  let request; // the present one

  function idle(text) {
    request = undefined;
    running.hidden = true;
    for (const control of controls) control.hidden = false;
    fault.textContent = text;
    fault.hidden = !text;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (request) return;
    const sent = (request = new XMLHttpRequest());
    const show = progressOf(running, "sent");
    fault.hidden = true;
    for (const control of controls) control.hidden = true;
    running.hidden = false;
    sent.open("POST", form.action);
    sent.setRequestHeader("Accept", "application/json");
    sent.upload.addEventListener("progress", (progress) => show(progress.loaded, progress.total));
    sent.addEventListener("load", () => {
      const page = new URL(sent.responseURL).pathname;
      if (sent.status === 200 && page.startsWith("/import/")) location.assign(page);
      else idle(failure(sent));
    });
    sent.addEventListener("error", () => idle(failure(sent)));
    sent.addEventListener("abort", () => idle(""));
    sent.send(new FormData(form));
  });
  form.querySelector("[data-abort]").addEventListener("click", () => request?.abort());
  addEventListener("beforeunload", (event) => { if (request?.readyState < XMLHttpRequest.HEADERS_RECEIVED) event.preventDefault(); });

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
    if (request || files.length === 0) return;
    if (files.length > 1) return idle("Drop one file at a time.");
    form.elements.file.files = files;
    form.requestSubmit();
  });
}

const form = document.querySelector("[data-import]");
if (form) sendFiles(form);
const watched = document.querySelector("[data-watch]");
if (watched) watch(watched);
