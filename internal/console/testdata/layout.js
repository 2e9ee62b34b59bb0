// Returns what a person would see broken on the open page at the present width of the window, as texts: elements that are
// cut, words that are broken inside, lines of code on one line, pills and buttons on two lines, targets of a click that are
// smaller than 24 px, and a page that scrolls sideways. An element that the keyboard can reach may scroll.
(() => {
  const slack = 1; // px, for rounding
  const faults = new Set();
  const wide = document.documentElement.clientWidth;
  const name = (e) => e.localName + (e.hasAttribute("id") ? "#" + e.getAttribute("id") : "") + [...e.classList].map((c) => "." + c).join("");
  const place = (e) => (e.closest("table, form, nav, dl, section, header, main") || document.body);
  const say = (fault, e, text = e.textContent) => {
    const words = text.trim().replace(/\s+/g, " ");
    faults.add(fault + ": " + (place(e) === e ? "" : name(place(e)) + " ") + name(e) +
      (words ? " “" + (words.length > 60 ? words.slice(0, 60) + "…" : words) + "”" : ""));
  };
  const styles = new Map();
  const style = (e) => styles.get(e) || styles.set(e, getComputedStyle(e)).get(e);
  const visible = new Map();
  const shown = (e) => {
    if (!visible.has(e)) visible.set(e, e.checkVisibility({ visibilityProperty: true }) && style(e).clipPath === "none" &&
      !e.matches(".skip, [aria-hidden=true], svg, script, option") && (e === document.body || shown(e.parentElement)));
    return visible.get(e);
  };
  const beyond = (box, edge) => box.left < edge.left - slack || box.right > edge.right + slack;
  const inSentence = (e) => style(e).display === "inline" && !e.parentElement.matches("td, th") &&
    [...e.parentElement.childNodes].some((n) => n !== e && n.textContent.trim());
  const inside = (e) => {
    const { left, right } = e.getBoundingClientRect(), { paddingLeft, paddingRight } = style(e);
    return { left: left + parseFloat(paddingLeft), right: right - parseFloat(paddingRight) };
  };
  const linesOf = (range) => {
    const boxes = [...range.getClientRects()].filter((r) => r.width > .5);
    const lines = [];
    for (const b of boxes) if (!lines.some((l) => Math.abs(l.top - b.top) < .6 * b.height)) lines.push(b);
    return { boxes, count: lines.length };
  };
  const controls = "button, .button, summary, input, select, textarea, progress, .state, .tag, img";
  const edges = "td, th, dd, dt, li, button, .button, summary, label, legend, .card, .state, figcaption, h1, h2, h3, p";

  if (document.documentElement.scrollWidth > wide) faults.add("the page scrolls sideways: " +
    document.documentElement.scrollWidth + " px");

  for (const e of document.body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    if (!shown(e) || box.width === 0 || box.height === 0) continue;
    if (!e.matches(controls) && ![...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())) continue;
    let p = e.parentElement;
    for (; p !== document.body && p.getAttribute("tabindex") !== "0"; p = p.parentElement) {
      const { overflowX, overflowY } = style(p), edge = p.getBoundingClientRect();
      if (overflowX !== "visible" && beyond(box, edge)) say("cut by " + name(p), e);
      if (/hidden|clip/.test(overflowY) && (box.top < edge.top - slack || box.bottom > edge.bottom + slack)) say("cut by " + name(p), e);
    }
    if (p === document.body && beyond(box, { left: 0, right: wide })) say("outside of the window", e);
    if (style(e).textOverflow === "ellipsis" && e.scrollWidth > e.clientWidth + slack && !e.title) say("shortened without a title", e);
    const holder = e.parentElement.closest("dialog, td, th, .card, .more > div, main, header");
    if (e.matches(controls) && holder && beyond(box, holder.getBoundingClientRect())) say("over the edge of " + name(holder), e);
    if (e.matches("a[href], button, summary, select, textarea, input") && !inSentence(e)) {
      const { width, height } = (e.closest("label") || e).getBoundingClientRect();
      if (width < 24 || height < 24) say("target of " + Math.round(width) + " by " + Math.round(height) + " px", e);
    }
    if (e.matches(".state, td .tag, .where, .method, .stack thead th, button:not(.danger), .button, summary")) {
      const range = document.createRange();
      range.selectNodeContents(e);
      if (linesOf(range).count > 1) say("on two lines", e);
    }
    if (e.closest("pre") && style(e).whiteSpaceCollapse === "collapse") say("lines on one line", e);
  }

  // A word may break after a hyphen or a closing bracket. Long texts without spaces have <wbr>, which separates their text
  // nodes. Code in a pre may break anywhere, as in a terminal.
  const words = /[^\s\u2010\u2013\u2014\-)\]}]+[\u2010\u2013\u2014\-)\]}]*|[\u2010\u2013\u2014\-)\]}]+/gu;
  const unspaced = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const e = node.parentElement;
    if (!shown(e) || e.closest("pre, textarea")) continue;
    const block = e.closest(edges), edge = block && inside(block);
    for (const { 0: word, index } of node.data.matchAll(words)) {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const { boxes, count } = linesOf(range);
      if (count > 1 && !unspaced.test(word)) say("broken word", e, word);
      if (block && boxes.some((b) => beyond(b, edge)) && style(e).textOverflow !== "ellipsis") say("over the edge of " + name(block), e, word);
    }
  }
  return [...faults];
})()
