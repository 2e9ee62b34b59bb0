// The connection to the server. A page says when the server does not respond or when the session has ended, keeps its
// input, and continues by itself. A form is sent only when the server responds.

const every = 5000; // ms between two checks, and the time for each
const box = document.querySelector("[data-connection]"); // only on pages with a session
const onReturn = new Set();
const sent = new WeakSet(); // forms that are on their way
let state = "ok"; // or lost, or ended
let waiting; // sends the form, or opens the link, that waits for the server
let timer;
let leaving = false; // a link is being opened, so the page must not lead elsewhere

const texts = {
  ok: "",
  lost: "The server does not respond. Your input stays here, and the page continues when the server responds.",
  ended: "Your session has ended. Your input stays here: sign in again in another tab, and the page continues.",
};

async function ask() {
  try {
    const response = await fetch("/session", { cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(every) });
    if (!response.ok) return "lost";
    return (await response.json()).open ? "ok" : "ended";
  } catch {
    return "lost";
  }
}

function show() {
  if (!box) return;
  box.textContent = texts[state];
  if (state !== "ended") return;
  const link = document.createElement("a");
  link.href = "/sign-in";
  link.target = "_blank";
  link.rel = "noopener";
  link.textContent = "Sign in";
  box.append(" ", link);
}

function hasInput() {
  for (const field of document.querySelectorAll("main :is(input, textarea, select)")) {
    if (field.type === "hidden") continue;
    if (field.type === "file" ? field.files.length > 0 : field.type === "checkbox" || field.type === "radio"
      ? field.checked !== field.defaultChecked : field.options
        ? [...field.options].some((o) => o.defaultSelected) && !field.selectedOptions[0]?.defaultSelected
        : field.value !== field.defaultValue) return true;
  }
  return false;
}

// signInAgain leads to the sign-in page, and from there back to this page.
export function signInAgain() {
  if (leaving) return;
  const next = new URLSearchParams({ ended: 1, next: location.pathname + location.search });
  location.replace("/sign-in?" + next);
}

// check asks the server now, and continues the page if it can.
async function check() {
  clearTimeout(timer);
  const before = state;
  const now = await ask();
  state = now === "ended" && !box ? "ok" : now; // a page without a session needs none
  if (state === "ended" && !waiting && !hasInput()) return signInAgain();
  if (state !== before) show();
  if (state === "ok") {
    const next = waiting;
    waiting = undefined;
    next?.();
    if (before !== "ok") onReturn.forEach((continues) => continues());
  }
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (box || waiting || state !== "ok") timer = setTimeout(() => (document.hidden && !waiting ? schedule() : check()), every);
}

// lost tells that a request has failed, and calls continues when the server responds again.
export function lost(continues) {
  onReturn.add(continues);
  check();
}

// found ends the call of lost.
export function found(continues) {
  onReturn.delete(continues);
}

// proceed calls continues as soon as the server responds.
export function proceed(continues) {
  waiting = continues;
  check();
}

addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method === "dialog" || sent.delete(form)) return;
  event.preventDefault();
  const submitter = event.submitter;
  proceed(() => {
    sent.add(form);
    form.requestSubmit(submitter);
  });
});

addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || link.target || link.origin !== location.origin) return;
  if (state !== "lost") {
    leaving = !link.hasAttribute("download");
    setTimeout(() => (leaving = false), every); // the link can be a download
    return;
  }
  event.preventDefault();
  proceed(() => location.assign(link.href));
});

addEventListener("online", check);
document.addEventListener("visibilitychange", () => document.hidden || check());
addEventListener("focus", check);
schedule();
