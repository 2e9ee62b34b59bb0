package console_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"plantstore/internal/audit"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// deadLetters makes URLs the webhooks of the store, creates plants from an id on, and makes their deliveries dead
// letters with the reasons.
func (h *harness) deadLetters(urls []string, firstPlant int64, reasons ...string) {
	h.t.Helper()
	ctx := h.t.Context()
	hooks, err := h.engine.SetWebhooks(ctx, urls, audit.Origin{})
	if err != nil {
		h.t.Fatal(err)
	}
	var plants []store.Create
	for i := range reasons {
		plants = append(plants, stored(firstPlant+int64(i), "Acer", plantTag("tree")))
	}
	if _, err := h.engine.Insert(ctx, plants); err != nil {
		h.t.Fatal(err)
	}
	claim := store.Claim{Most: map[int64]int{}, Lease: time.Minute}
	for _, w := range hooks {
		claim.Most[w.ID] = len(reasons)
	}
	taken, err := h.engine.TakeDeliveries(ctx, nil, claim)
	if err != nil || len(taken) != len(urls)*len(reasons) {
		h.t.Fatalf("%d deliveries, %v", len(taken), err)
	}
	var dead []store.DeliveryResult
	for _, d := range taken {
		dead = append(dead, store.DeliveryResult{
			Webhook: d.Webhook, Plant: d.Plant.ID, Since: d.Since, Lease: d.Lease, Dead: true, Attempts: 3,
			Reason: reasons[d.Plant.ID-firstPlant],
		})
	}
	if _, err := h.engine.TakeDeliveries(ctx, dead, store.Claim{}); err != nil {
		h.t.Fatal(err)
	}
}

// startHostileWebhooks adds webhooks whose addresses, states and dead letters have hostile texts.
func (h *harness) startHostileWebhooks() {
	var urls []string
	for i, name := range hostileNames()[:16] {
		urls = append(urls, fmt.Sprintf("https://plants.example/%d/%s", i, strings.ReplaceAll(name, "%", "")))
	}
	h.deadLetters(urls, 1000, hostileNames()[:20]...)
	h.deliveries = map[int64]webhook.Status{}
	for i, name := range hostileNames()[:16] {
		h.deliveries[int64(i+1)] = webhook.Status{
			FailedAt: time.Now(), Reason: name, Failures: i, Gone: i == 5,
			PausedUntil: time.Now().Add(time.Duration(i-3) * time.Hour),
		}
	}
}

// TestWebhookPages lists webhooks with their states, and retries and drops dead letters.
func TestWebhookPages(t *testing.T) {
	t.Parallel()
	bare := start(t)
	bare.signIn(bare.admin).get("/webhooks").want(t, 200, "The server sends no events.", "No dead letters.")
	h := start(t)
	c := h.signIn(h.admin)
	reasons := make([]string, 60)
	for i := range reasons {
		reasons[i] = fmt.Sprintf("status %d", 500+i)
	}
	h.deadLetters([]string{"https://a.example/e?key=secret"}, -30, reasons...)
	h.deliveries = map[int64]webhook.Status{1: {
		DeliveredAt: time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC), Failures: 7, Reason: "status 503",
		PausedUntil: time.Now().Add(time.Hour),
	}}
	first := c.get("/webhooks")
	first.want(t, 200, "https://a.example/e<", "2026-11-22T09:30:00Z", "7 attempts failed", "status 503",
		`<td class="num" data-label="Dead letters">60</td>`, `<a href="/plants/-30">`, "status 549<", ">Next<", "1–50")
	if strings.Contains(first.body, "secret") || strings.Contains(first.body, "status 550<") {
		t.Errorf("the first page has a secret or too many dead letters: %s", first.body)
	}
	next := regexp.MustCompile(`href="(/webhooks\?at=[^"]*)"`).FindStringSubmatch(first.body)
	if next == nil {
		t.Fatal("the first page has no link to the next one")
	}
	c.get(html.UnescapeString(next[1])).want(t, 200, "status 550<", "status 559<", ">Previous<", "51–60")
	c.get("/webhooks?at=50.x").want(t, 400, "cursor must be the next of an earlier page")

	post := func(path, to string, form url.Values) {
		t.Helper()
		if res := c.post(path, form); res.status != 303 || res.Header.Get("Location") != to {
			t.Errorf("%s %v: got %d to %q: %s", path, form, res.status, res.Header.Get("Location"), res.body)
		}
	}
	post("/webhooks/drop", "/webhooks?done=drop&n=1", url.Values{"webhook": {"1"}, "plant": {"-30"}})
	post("/webhooks/drop", "/webhooks?done=drop&n=0", url.Values{"webhook": {"1"}, "plant": {"-30"}})
	post("/webhooks/retry", "/webhooks?done=retry&n=1", url.Values{"webhook": {"1"}, "plant": {"-29"}})
	post("/webhooks/retry", "/webhooks?done=retry&n=58", url.Values{"webhook": {"1"}})
	post("/webhooks/drop", "/webhooks?done=drop&n=0", url.Values{"all": {"1"}})
	c.get("/webhooks?done=retry&n=58").want(t, 200, "58 dead letters are due now.", "No dead letters.",
		`<td class="num" data-label="Waiting">59</td>`)
	c.get("/webhooks?done=drop&n=0").want(t, 200, "No dead letter was changed")
	c.get("/webhooks?done=drop&n=100000").want(t, 200, "100\u202f000 dead letters were removed.")
	c.get("/webhooks?done=<script>&n=1").want(t, 200)
	for _, form := range []url.Values{
		{},
		{"webhook": {"0"}},
		{"webhook": {"x"}},
		{"webhook": {"1"}, "plant": {"x"}},
		{"all": {"1"}, "webhook": {"1"}},
	} {
		c.post("/webhooks/drop", form).want(t, 400, `<p class="fault`)
	}
	c.get("/audit").want(t, 200, "webhook.retry", "webhook.drop", "operator")
}

// TestWebhooksInBrowser retries one dead letter and drops the others.
func TestWebhooksInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.deadLetters([]string{"https://a.example/e"}, 1, "status 500", "status 501", "status 502")
	b := startBrowser(t, h)
	b.signIn()
	b.open("/webhooks")
	b.Do(chromedp.Click(chromedp.CSS(`button[aria-label="Retry plant 2 for webhook 1"]`)))
	b.Await(`document.body.innerText.includes("1 dead letter is due now.")`)
	b.Await(`!document.body.innerText.includes("status 501")`)
	b.Do(
		chromedp.Click(chromedp.CSS(`button[aria-label="Drop all dead letters"]`)),
		chromedp.Click(chromedp.CSS(`dialog[open] button.danger`)),
	)
	b.Await(`document.body.innerText.includes("2 dead letters were removed.")`)
	b.Await(`document.body.innerText.includes("No dead letters.")`)
	b.check("webhooks")
}
