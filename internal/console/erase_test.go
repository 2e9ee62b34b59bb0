package console_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// formOf returns the fields of the form of a page with an action, as a browser sends them unchanged.
func (c *client) formOf(page response, action string) url.Values {
	c.h.t.Helper()
	text := regexp.MustCompile(`(?s)<form method="post" action="` + action + `">.*?</form>`).FindString(page.body)
	if text == "" {
		c.h.t.Fatalf("no form %s in %s", action, page.body)
	}
	form := url.Values{}
	for _, input := range regexp.MustCompile(`<input [^>]+>`).FindAllString(text, -1) {
		if strings.Contains(input, `type="checkbox"`) && !strings.Contains(input, " checked") {
			continue
		}
		name := regexp.MustCompile(` name="([^"]*)"`).FindStringSubmatch(input)[1]
		value := append(regexp.MustCompile(` value="([^"]*)"`).FindStringSubmatch(input), "", "on")[1]
		form.Set(name, unescaped(value, strings.Contains(input, `type="hidden"`)))
	}
	return form
}

// TestCorrectPlant corrects the plant of a page, which keeps what the form does not change, even a line end.
func TestCorrectPlant(t *testing.T) {
	t.Parallel()
	const name = "Acer\tplantanoides\r\n'Crimson\u202e King'\x01"
	h := start(t, stored(7, name, plantTag("tree")), stored(8, "Rosa", plant.Tag{}), stored(9, "Tilia", plantTag("")),
		stored(10, strings.Repeat("ü", 20_000), plant.Tag{}), stored(11, strings.Repeat("ü", 16<<10), plant.Tag{}))
	c := h.signIn(h.admin)
	c.get("/plants/10").want(t, 200, "It is too long for a form. Run <code>plantstore correct 10</code>.")
	longest := c.formOf(c.get("/plants/11"), "/plants/11/correct")
	longest.Set("tag", "ü")
	if res := c.post("/plants/11/correct", longest); res.Header.Get("Location") != "/plants/11?done=corrected" {
		t.Errorf("the longest name: %d, %s", res.status, res.body)
	}
	for i, step := range []struct {
		id, name, tag, hasTag string // "=": as the page has it
		want                  plant.Plant
	}{
		{"7", "=", "=", "", plant.Plant{Name: name, Tag: plantTag("tree")}},
		{"7", "=", "maple", "", plant.Plant{Name: name, Tag: plantTag("maple")}},
		{"7", "Acer platanoides", "", "", plant.Plant{Name: "Acer platanoides"}},
		{"7", "=", "", "on", plant.Plant{Name: "Acer platanoides", Tag: plantTag("")}},
		{"7", "", "=", "on", plant.Plant{Tag: plantTag("")}},
		{"8", "=", "=", "", plant.Plant{Name: "Rosa"}},
		{"9", "Tilia cordata", "=", "on", plant.Plant{Name: "Tilia cordata", Tag: plantTag("")}},
	} {
		form := c.formOf(c.get("/plants/"+step.id), "/plants/"+step.id+"/correct")
		for field, value := range map[string]string{"name": step.name, "tag": step.tag} {
			if value != "=" {
				form.Set(field, value)
			}
		}
		if form.Set("has-tag", "on"); step.hasTag == "" {
			form.Del("has-tag")
		}
		form.Set("reason", fmt.Sprintf("step %d", i))
		done := map[bool]string{true: "corrected", false: "unchanged"}[i != 0 && i != 5]
		res := c.post("/plants/"+step.id+"/correct", form)
		if got, want := res.Header.Get("Location"), "/plants/"+step.id+"?done="+done; res.status != 303 || got != want {
			t.Fatalf("step %d: %d to %q, want %q: %s", i, res.status, got, want, res.body)
		}
		id := int64(step.id[0] - '0')
		if r, err := h.engine.Get(t.Context(), id); err != nil || r.Plant != step.want {
			t.Errorf("step %d: got %+v, %v; want %+v", i, r, err, step.want)
		}
	}
	c.get("/plants/7?done=corrected").want(t, 200, "The plant is corrected.", "operator")
	h.awaitAudit(audit.PlantsCorrect, "reason=step 6")
}

// TestChangesOfAnotherTab refuses a form of a page whose plant has changed since, and shows the new one.
func TestChangesOfAnotherTab(t *testing.T) {
	t.Parallel()
	h := start(t, stored(7, "Acer plantanoides", plant.Tag{}))
	c := h.signIn(h.admin)
	page := c.get("/plants/7")
	correct, erase := c.formOf(page, "/plants/7/correct"), c.formOf(page, "/plants/7/erase")
	correct.Set("name", "Acer platanoides")
	if res := c.post("/plants/7/correct", correct); res.status != 303 {
		t.Fatalf("%d, %s", res.status, res.body)
	}
	for path, form := range map[string]url.Values{"correct": correct, "erase": erase} {
		for _, form := range []url.Values{form, {}} {
			c.post("/plants/7/"+path, form).want(t, 404, "plant 7 has changed; read it, and try again", ">Acer platanoides<")
		}
	}
	for name, want := range map[string]string{"a\x00": "U+0000", "\xff": "must be UTF-8"} {
		form := c.formOf(c.get("/plants/7"), "/plants/7/correct")
		form.Set("name", name)
		c.post("/plants/7/correct", form).want(t, 400, want, `role="alert"`)
	}
	erase = c.formOf(c.get("/plants/7"), "/plants/7/erase")
	erase.Set("reason", "not\x00\xffa plant")
	if res := c.post("/plants/7/erase", erase); res.Header.Get("Location") != "/plants?done=erased" {
		t.Fatalf("%d, %s", res.status, res.body)
	}
	c.get("/plants?done=erased").want(t, 200, "The plant is erased.", "The store has no plants yet.")
	c.post("/plants/7/erase", erase).want(t, 404, "the store has no plant with the id 7")
	h.awaitAudit(audit.PlantsErase, "reason=not\uFFFD\uFFFDa plant")
	reader := h.signIn(h.mint("reader", auth.ScopeRead))
	if strings.Contains(reader.get("/plants/7").body, "Erase") {
		t.Error("the page of a reader has the form")
	}
}

// TestEraseCreated erases what a token created in requests of a limited time, and nothing else.
func TestEraseCreated(t *testing.T) {
	t.Parallel()
	const many = 2*admin.EraseMax + 3
	h := start(t, stored(-1, "Quercus", plant.Tag{}))
	secret := h.mint("shop", auth.ScopeCreate)
	h.mint("2", auth.ScopeCreate) // the name is the id of the other token
	p, err := h.writePath.Authenticate(t.Context(), secret)
	if err != nil || p.TokenID != 2 {
		t.Fatalf("got %+v, %v", p, err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	batch := []store.Create{stored(10_000, "Tilia", plantTag("tree")), stored(10_001, "Salix", plant.Tag{})}
	for id := range int64(many) {
		batch = append(batch, stored(id, fmt.Sprintf("Rosa %d", id), plant.Tag{}))
	}
	for i := range batch {
		batch[i].At, batch[i].By = now, 2
	}
	batch[0].By, batch[1].At = 3, now.Add(-time.Hour)
	slices.SortFunc(batch, func(a, b store.Create) int { return int(a.Plant.ID - b.Plant.ID) })
	if _, err := h.engine.Insert(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	c := h.signIn(h.admin)
	c.get("/credentials").want(t, 200, `<a href="/credentials/2/erase"`)
	since := now.Format("2006-01-02T15:04:05")
	page := c.get("/credentials/2/erase?since=" + since)
	page.want(t, 200, "Erase 203 plants for good?", "This credential is valid", ">Rosa 9<", `value="`+since+`"`)
	if strings.Contains(page.body, ">Rosa 10<") || strings.Contains(page.body, "Tilia") {
		t.Errorf("got %s", page.body)
	}
	form := c.formOf(page, "/credentials/2/erase")
	late := stored(20_000, "Acer", plant.Tag{}) // created after the question
	late.At, late.By = time.Now().Add(time.Minute), 2
	if _, err := h.engine.Insert(t.Context(), []store.Create{late}); err != nil {
		t.Fatal(err)
	}

	// Each look at the clock takes so long that a request counts or erases one part.
	var looks atomic.Int64
	h.console.SetClock(func() time.Time { return now.Add(time.Duration(looks.Add(1)) * 11 * time.Second) })
	form.Set("reason", "leaked")
	var erased []string
	for range 3 {
		res := c.post("/credentials/2/erase", form)
		to, err := url.Parse(res.Header.Get("Location"))
		if err != nil || res.status != 303 {
			t.Fatalf("%d, %s", res.status, res.body)
		}
		erased = append(erased, to.Query().Get("erased"))
		page = c.get(to.String())
		if to.Query().Get("at") != "" {
			page.want(t, 200, "100 plants erased.")
			until := form.Get("until")
			form = c.formOf(page, "/credentials/2/erase")
			form.Set("until", until)
		}
	}
	if got := strings.Join(erased, " "); got != "100 100 3" {
		t.Errorf("erased %s", got)
	}
	page.want(t, 200, "3 plants erased.", "Erase 1 plant for good?", ">Acer<")
	h.console.SetClock(time.Now)
	if n := left(t, h); n != "-1 10000 10001 20000" {
		t.Errorf("left %s", n)
	}
	c.get("/credentials/3/erase").want(t, 200, "Erase 1 plant for good?", ">Tilia<")
	c.get("/credentials/1/erase").want(t, 200, "The store has no plant that it created since then.")
	h.awaitAudit(audit.PlantsErase, "reason=leaked")
}

// TestRefusedErasures shows why a request is refused, and erases nothing.
func TestRefusedErasures(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa", plant.Tag{}))
	c := h.signIn(h.admin)
	for target, want := range map[string]string{
		"/credentials/9/erase":              "no credential has the id",
		"/credentials/01/erase":             "no credential has the id",
		"/credentials/0/erase":              "no credential has the id",
		"/credentials/x/erase":              "no credential has the id",
		"/credentials/1/erase?since=monday": "the time must have the form",
		"/credentials/1/erase?at=x":         "cursor must be",
	} {
		status := 404
		if strings.Contains(target, "?") {
			status = 400
		}
		c.get(target).want(t, status, want)
		path, query, _ := strings.Cut(target, "?")
		form, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		form.Set("until", "2999-01-01T00:00:00Z")
		c.post(path, form).want(t, status, want)
	}
	c.get("/credentials/1/erase?since=2026-11-22T09:30").want(t, 200, `value="2026-11-22T09:30:00"`)
	c.get("/credentials/1/erase?since=9999-12-31T23:59:59&erased=x").want(t, 200, "no plant that it created")
	late := url.Values{"until": {"2026-01-01T00:00:00Z"}, "since": {"2026-01-02T00:00:00"}}
	for _, form := range []url.Values{{"until": {"x"}}, late} {
		if res := c.post("/credentials/1/erase", form); res.status != 400 || !strings.Contains(res.body, `role="alert"`) {
			t.Errorf("%v: %d, %s", form, res.status, res.body)
		}
	}
	if n := left(t, h); n != "1" {
		t.Errorf("left %s", n)
	}
}

// left returns the ids of the stored plants.
func left(t *testing.T, h *harness) string {
	t.Helper()
	var ids []string
	c := h.signIn(h.admin)
	for _, match := range regexp.MustCompile(`<td class="num">(-?\d+)<`).FindAllStringSubmatch(c.get("/plants").body, -1) {
		ids = append(ids, match[1])
	}
	return strings.Join(ids, " ")
}

// unescaped returns the value of an attribute as a browser has it: an input that is not hidden has no line ends.
func unescaped(value string, hidden bool) string {
	if value = html.UnescapeString(value); hidden {
		return value
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(value)
}

// TestEraseEndsWithTheSession revokes the token of a session after the first part of an erasure.
func TestEraseEndsWithTheSession(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.mint("shop", auth.ScopeCreate)
	var batch []store.Create
	for id := range int64(2 * admin.EraseMax) {
		p := stored(id, "Rosa", plant.Tag{})
		p.By = 2
		batch = append(batch, p)
	}
	if _, err := h.engine.Insert(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	c := h.signIn(h.mint("temp", auth.ScopeAdmin|auth.ScopeRead))
	var revoked atomic.Bool
	h.console.SetClock(func() time.Time {
		_, err := h.engine.Get(t.Context(), 0)
		if err != nil && revoked.CompareAndSwap(false, true) { // the first part is erased
			h.revoke(store.Selector{Name: "temp"})
			h.awaitAudit(audit.RequestEnded, "reason=revoked")
		}
		return time.Now()
	})
	res := c.post("/credentials/2/erase", url.Values{"since": {"2026-01-01T00:00:00"}})
	if !isSignIn(res) {
		t.Errorf("got %d to %q: %s", res.status, res.Header.Get("Location"), res.body)
	}
	h.signIn(h.admin).get("/credentials/2/erase?since=2026-01-01T00:00:00").want(t, 200, "Erase 100 plants for good?")
}

// TestEraseInBrowser corrects and erases a plant, and erases what a token has created, with its time.
func TestEraseInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Acer plantanoides\nL.", plantTag("tree")), stored(2, "Rosa", plant.Tag{}))
	h.mint("shop", auth.ScopeCreate)
	late := stored(3, "Tilia", plant.Tag{})
	late.At, late.By = time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC), 2
	early := stored(4, "Salix", plant.Tag{})
	early.By = 2
	if _, err := h.engine.Insert(t.Context(), []store.Create{late, early}); err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t, h)
	b.signIn()
	b.open("/plants/1")
	b.Await(`document.querySelector("#tag").value = "maple"`)
	b.Do(
		chromedp.SendKeys(chromedp.CSS("#reason"), "typing error"),
		chromedp.Click(chromedp.CSS(".card .primary")),
	)
	b.Await(`document.body.innerText.includes("The plant is corrected.")`)
	r, err := h.engine.Get(t.Context(), 1)
	if want := (plant.Plant{Name: "Acer plantanoides\nL.", Tag: plantTag("maple")}); err != nil || r.Plant != want {
		t.Errorf("corrected: got %+v, %v", r, err)
	}
	b.Do(
		chromedp.Click(chromedp.CSS(`[popovertarget="question"].danger`)),
		chromedp.SendKeys(chromedp.CSS("#erase-reason"), "not ours"), chromedp.Click(chromedp.CSS("dialog[open] .danger")),
	)
	b.Await(`document.body.innerText.includes("The plant is erased.")`)
	h.awaitAudit(audit.PlantsErase, "reason=not ours")

	b.open("/credentials/2/erase?since=2026-11-21T09:30")
	b.Await(`document.body.innerText.includes("Erase 2 plants for good?")`)
	b.Await(`document.querySelector("#since").value = "2026-11-22T09:30:00"`)
	b.Do(chromedp.Click(chromedp.CSS("main form button")))
	b.Await(`document.body.innerText.includes("Erase 1 plant for good?")`)
	b.Do(chromedp.Click(chromedp.CSS(".choices .danger")))
	b.Await(`document.body.innerText.includes("1 plant erased.")`)
	if ids := left(t, h); ids != "2 4" {
		t.Errorf("left %s", ids)
	}
	b.check("erase")
}
