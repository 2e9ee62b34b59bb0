// The theme of the pages. Without a choice it is the theme of the system. This script is no module, so the browser runs it
// before it shows the page. The browser keeps the choice, and the server never receives it.

(() => {
  const root = document.documentElement;
  const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
  let choice = null; // light, dark, or null: none

  try {
    choice = localStorage.getItem("theme");
  } catch { /* the browser stores nothing; the choice lasts for this page */ }

  const shown = () => (choice === "light" || choice === "dark" ? choice : systemIsDark.matches ? "dark" : "light");
  const other = () => (shown() === "dark" ? "light" : "dark");

  function show() {
    root.dataset.theme = shown();
    for (const button of document.querySelectorAll("[data-theme-switch]")) {
      button.hidden = false;
      button.querySelector("span").textContent = other() === "dark" ? "Dark" : "Light";
      button.title = "Switch to the " + other() + " theme";
    }
  }

  // A choice that is the theme of the system follows the system again.
  function change() {
    const system = systemIsDark.matches ? "dark" : "light";
    choice = other() === system ? null : other();
    try {
      if (choice) localStorage.setItem("theme", choice);
      else localStorage.removeItem("theme");
    } catch { /* as above */ }
    show();
  }

  show();
  systemIsDark.addEventListener("change", show);
  addEventListener("storage", (event) => { // another tab
    if (event.key !== "theme") return;
    choice = event.newValue;
    show();
  });
  document.addEventListener("DOMContentLoaded", show);
  document.addEventListener("click", (event) => event.target.closest?.("[data-theme-switch]") && change());
})();
