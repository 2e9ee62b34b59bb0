// Measures pages with Lighthouse, all in one browser, in its default form: a phone with a slow network. The input is
// JSON: the path of the browser, a directory for its files, and the pages with their headers. The output has one line
// of JSON for each page: the scores from 0 to 1, and the audits that lowered them.

import { launch } from "chrome-launcher";
import lighthouse, { defaultConfig } from "lighthouse";
import { text } from "node:stream/consumers";

const categories = ["performance", "accessibility", "best-practices"];
// Audits without a weight are advice and take most of the time.
const audits = categories.flatMap((name) => defaultConfig.categories[name].auditRefs)
  .filter((audit) => audit.weight > 0).map((audit) => audit.id);
const quiet = 300; // ms without work after which a page is complete

const input = JSON.parse(await text(process.stdin));
const browser = await launch({
  chromePath: input.browser,
  userDataDir: input.dir,
  chromeFlags: ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"],
  logLevel: "error",
});
try {
  for (const page of input.pages) {
    const { lhr } = await lighthouse(page.url, { port: browser.port, logLevel: "error" }, {
      extends: "lighthouse:default",
      settings: {
        onlyAudits: audits,
        extraHeaders: page.headers,
        disableFullPageScreenshot: true,
        pauseAfterFcpMs: quiet,
        pauseAfterLoadMs: quiet,
        networkQuietThresholdMs: quiet,
        cpuQuietThresholdMs: quiet,
      },
    });
    const scores = {}, faults = [];
    for (const name of categories) {
      scores[name] = lhr.categories[name].score;
      for (const { id } of lhr.categories[name].auditRefs) {
        const { score, displayValue, details } = lhr.audits[id];
        if (score === null || score >= 0.9) continue;
        const nodes = (details?.items ?? []).map((item) => item.node?.snippet).filter(Boolean).slice(0, 3);
        faults.push([id, score, displayValue, ...nodes].filter((part) => part !== undefined).join(" "));
      }
    }
    console.log(JSON.stringify({ url: lhr.finalDisplayedUrl, error: lhr.runtimeError?.message ?? "", scores, faults }));
  }
} finally {
  browser.kill();
}
