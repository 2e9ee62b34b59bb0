package console_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/console"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
	"plantstore/internal/webhook"
)

// want fails the test unless a response has a status and contains the texts.
func (r response) want(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("%s %s: got %d, want %d: %s", r.Request.Method, r.Request.URL, r.status, status, r.body)
		return
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Errorf("%s %s: no %q in %s", r.Request.Method, r.Request.URL, text, r.body)
		}
	}
}

func manyPlants(n int) (plants []store.Create) {
	for i := range n {
		tag := plant.Tagged([]string{"odd", "even"}[i%2])
		plants = append(plants, stored(int64(i+1), fmt.Sprintf("Rosa %d", i+1), tag))
	}
	return plants
}

func TestPlantPages(t *testing.T) {
	t.Parallel()
	h := start(t, manyPlants(120)...)
	c := h.signIn(h.admin)
	first := c.get("/plants")
	first.want(t, 200, `<a href="/plants/50">`, "2026-11-21T09:30:00Z")
	second := c.follow(first, "Next")
	second.want(t, 200, `<a href="/plants/51">`, `<a href="/plants/100">`, "51–100 of 120")
	third := c.follow(second, "Next")
	third.want(t, 200, `<a href="/plants/101">`, "101–120 of 120", ">First page<")
	if strings.Contains(third.body, ">Next<") {
		t.Error("the last page has a next one")
	}
	for name, body := range map[string]string{
		"second": c.follow(third, "Previous").body, "first": c.follow(c.follow(third, "Previous"), "Previous").body,
	} {
		table := regexp.MustCompile(`(?s)<table.*</nav>`) // suggestions are above it, after the first count of tags
		want := table.FindString(map[string]string{"second": second.body, "first": first.body}[name])
		if body = table.FindString(body); body == "" || want != body {
			t.Errorf("back on the %s page: (-want +got)\n%s", name, cmp.Diff(want, body))
		}
	}
	c.follow(third, "First page").want(t, 200, `<a href="/plants/50">`)
	c.get("/plants?at=x&back=y&back=1.z").want(t, 200, `<a href="/plants/50">`)
	c.get("/plants?at=-7.x").want(t, 400, "cursor must be the next of an earlier page")
	c.get("/plants?name=ROSA+12").want(t, 200, "Rosa 12<", "Rosa 120<", "2 found")
	c.get("/plants?name=none").want(t, 200, "No plants found.")
	odd := c.get("/plants?tag=odd")
	odd.want(t, 200, "50 of 60 shown.", "Rosa 99<")
	c.follow(odd, "Next").want(t, 200, "10 of 60 shown.", "Rosa 119<", "51–60 of 60")
	c.get("/plants?name=rosa&at=50.-1").want(t, 400, "cursor must be the next of an earlier page")
	c.get("/plants/7").want(t, 200, "Rosa 7", "(the operator)")
	c.get("/plants/777").want(t, 404, "the store has no plant with the id 777", "40402",
		"Check the id or the address.", `href="/plants">Back to Plants</a>`)
	c.get("/plants/x").want(t, 404)
	c.get("/plants?id=x").want(t, 400, "id must be a whole number")
	c.get("/plants?id=777&name=12").want(t, 404, "the store has no plant with the id 777", `value="777"`, "Rosa 12<")
	if res := c.get("/plants?id=7"); res.Header.Get("Location") != "/plants/7" {
		t.Errorf("id: got %d to %q", res.status, res.Header.Get("Location"))
	}
}

// TestPreviousPages goes back as many pages as an address has, and to the first one from there.
func TestPreviousPages(t *testing.T) {
	t.Parallel()
	const pages, back = 33, 30
	h := start(t, manyPlants(pages*50)...)
	c := h.signIn(h.admin)
	page := c.get("/plants")
	for range pages - 1 {
		page = c.follow(page, "Next")
	}
	page.want(t, 200, "1\u202f601–1\u202f650")
	for range back {
		page = c.follow(page, "Previous")
	}
	page.want(t, 200, "101–150", ">First page<")
	if strings.Contains(page.body, ">Previous<") {
		t.Error("the page before is not in the address, and has a link")
	}
	c.follow(page, "First page").want(t, 200, `<a href="/plants/1">`)
}

// The link of a tag shows the plants with the tag, in every script.
func TestTagLinks(t *testing.T) {
	t.Parallel()
	const tag = `ورد & "a+b" 100% \u202e`
	h := start(t, stored(1, "Rosa", plantTag(tag)), stored(2, "Quercus", plantTag("ورد")))
	c := h.signIn(h.admin)
	for _, path := range []string{"/plants", "/plants/1"} {
		link := regexp.MustCompile(`class="tag" dir="auto" href="([^"]+)"`).FindStringSubmatch(c.get(path).body)
		if link == nil {
			t.Fatalf("%s has no link", path)
		}
		res := c.get(html.UnescapeString(link[1]))
		res.want(t, 200, ">Rosa<")
		if strings.Contains(res.body, "Quercus") {
			t.Errorf("%s: %s has other plants", path, link[1])
		}
	}
}

// The links to the next page of a search and to its export keep the search.
func TestLinksKeepTheSearch(t *testing.T) {
	t.Parallel()
	h := start(t, append(manyPlants(120), stored(900, "Quercus & robur", plantTag("odd")))...)
	c := h.signIn(h.admin)
	for pattern, want := range map[string]string{
		`href="(/plants\?at=[^"]*)">Next`:                                      "Rosa 119<",
		`(?s)>Export these<.*?href="(/plants/export\?format=jsonl&amp;[^"]*)"`: `"id":119,"name":"Rosa 119","tag":"odd"`,
	} {
		link := regexp.MustCompile(pattern).FindStringSubmatch(c.get("/plants?name=ROSA&tag=odd").body)
		if link == nil {
			t.Fatalf("the page has no link %s", pattern)
		}
		res := c.get(html.UnescapeString(link[1]))
		res.want(t, 200, want)
		if strings.Contains(res.body, "Rosa 2<") || strings.Contains(res.body, `"Rosa 2"`) ||
			strings.Contains(res.body, "Quercus") {
			t.Errorf("%s has other plants: %s", link[1], res.body)
		}
	}
}

// The first page of a search has the plants whose names begin with the text first, and the number of all hits up to a
// limit.
func TestRankedSearch(t *testing.T) {
	t.Parallel()
	var plants []store.Create
	for i := range 1100 {
		name := "Tuberosa"
		if i >= 40 {
			name = "Rudbeckia"
		}
		plants = append(plants, stored(int64(i+1), fmt.Sprintf("%s %d", name, i+1), plant.Tagged("bulb")))
	}
	for i := range 20 {
		plants = append(plants, stored(int64(9000+i), "ROSA gallica", plant.Tag{}))
	}
	h := start(t, plants...)
	c := h.signIn(h.admin)
	page := c.get("/plants?name=rosa")
	page.want(t, 200, "50 of 60 shown.", "1–50 of 60", "/plants/9019", ">Tuberosa 30<")
	if strings.Index(page.body, "/plants/9019") > strings.Index(page.body, "/plants/1\"") {
		t.Errorf("a name that begins with the text comes later: %s", page.body)
	}
	c.follow(page, "Next").want(t, 200, "10 of 60 shown.", "51–60 of 60", ">Tuberosa 31<", ">Tuberosa 40<")
	c.get("/plants?tag=bulb").want(t, 200, "50 of at least 1\u202f000 shown.", "1–50</span>")
	lines := c.get("/plants/search?name=rosa").body
	_, again, _ := strings.Cut(lines, `{"type":"again"}`+"\n")
	if !strings.HasPrefix(again, `{"type":"hit","plant":{"id":9000,`) ||
		strings.Count(again, `"type":"hit"`) != 50 || !strings.Contains(again, `"hits":60`) {
		t.Errorf("got the lines %s", lines)
	}
}

// TestTagSuggestions suggests the tags of the last count, and those of the page.
func TestTagSuggestions(t *testing.T) {
	t.Parallel()
	h := start(t, append(manyPlants(120), stored(900, "Quercus", plantTag("")))...)
	c := h.signIn(h.admin)
	c.get("/plants").want(t, 200, `list="tags"`, `<option value="even">even`)
	for !strings.Contains(c.get("/plants/new").body, `<option value="odd">odd (60)</option>`) {
		<-time.After(10 * time.Millisecond) // until the count has ended
	}
	admin := h.signIn(h.mint("admin", auth.ScopeAdmin|auth.ScopeCreate))
	if page := admin.get("/plants/new"); strings.Contains(page.body, "odd") || strings.Contains(page.body, "901") {
		t.Errorf("a client that may not read plants gets their tags and ids: %s", page.body)
	}
}

func TestSearchStream(t *testing.T) {
	t.Parallel()
	h := start(t, manyPlants(120)...)
	c := h.signIn(h.admin)
	res := c.get("/plants/search?name=rosa+11")
	res.want(t, 200)
	var ids []string
	ended := false
	for line := range strings.Lines(res.body) {
		var l struct {
			Type, Reason string
			Plant        struct{ ID int64 }
			Rows         int64
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Type == "hit" {
			ids = append(ids, fmt.Sprint(l.Plant.ID))
		}
		ended = l.Reason == "complete" && l.Rows == 120
	}
	if got := strings.Join(ids, " "); got != "11 110 111 112 113 114 115 116 117 118 119" || !ended {
		t.Errorf("got the hits %s, ended %t: %s", got, ended, res.body)
	}
	c.get("/plants/search").want(t, 400)
}

func TestExport(t *testing.T) {
	t.Parallel()
	h := start(t, append(manyPlants(1100), stored(2000, "=1+1", plant.Tag{}))...)
	c := h.signIn(h.admin)
	res := c.get("/plants/export?format=csv")
	res.want(t, 200, "\uFEFFid,name,tag\r\n1,Rosa 1,odd\r\n", "1100,Rosa 1100,even\r\n2000,'=1+1,\r\n")
	if got := strings.Count(res.body, "\n"); got != 1102 {
		t.Errorf("got %d lines, want 1102", got)
	}
	if got := res.Header.Get("Content-Disposition"); got != "attachment; filename=plants.csv" {
		t.Errorf("got %q", got)
	}
	c.get("/plants/export?format=jsonl&name=rosa+110").want(t, 200, `{"id":110,"name":"Rosa 110","tag":"even"}`+"\n"+
		`{"id":1100,"name":"Rosa 1100","tag":"even"}`+"\n")
	c.get("/plants/export?format=xml").want(t, 400)
	h.awaitAudit(audit.PlantsExport, "plants=1101")
}

// A damaged row is marked on the page, and no file has its content.
func TestDamagedPlant(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plants.db")
	h := startOn(t, file, func(metrics prometheus.Registerer) (storetest.Engine, error) {
		return sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
	}, manyPlants(3)...)
	sqlitetest.Exec(t, file, "UPDATE plants SET name = 'Rosb 2' WHERE id = 2")
	c := h.signIn(h.admin)
	for _, path := range []string{"/plants", "/plants?name=rosa"} {
		res := c.get(path)
		res.want(t, 200, ">Rosa 1<", `>damaged</span></td><td class="num">2</td>`, ">Rosa 3<")
		if strings.Contains(res.body, "Rosb") {
			t.Errorf("%s: the page has the damaged name", path)
		}
	}
	c.get("/plants/2").want(t, 500, "plant 2 is damaged in the store; the operator can restore it from a backup")
	for _, search := range []string{"", "&name=rosa"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+h.host+"/plants/export?format=csv"+search, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", c.cookie)
		var body []byte
		res, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			body, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		if err == nil || strings.Contains(string(body), "Rosb") {
			t.Errorf("export%s: %v, %s", search, err, body)
		}
	}
	h.awaitAudit(audit.PlantsExport, "result=interrupted")
}

func TestCreatePlant(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	c.get("/plants/new").want(t, 200, "POST https://plants.example/plants", `name="id" value="1"`)
	for range 2 {
		res := c.post("/plants/new", url.Values{"id": {" 5 "}, "name": {"ورد"}, "tag": {""}, "has-tag": {"on"}})
		if got := res.Header.Get("Location"); res.status != 303 || !strings.HasPrefix(got, "/plants/5?done=") {
			t.Fatalf("got %d to %q: %s", res.status, got, res.body)
		}
	}
	record, err := h.engine.Get(t.Context(), 5)
	if err != nil || record.Plant != (plant.Plant{Name: "ورد", Tag: plant.Tagged("")}) || record.CreatedBy != "operator" {
		t.Errorf("got %+v, %v", record, err)
	}
	c.get("/plants/5?done=created").want(t, 200, `href="/plants/new">Create another<`)
	used := c.post("/plants/new", url.Values{"id": {"5"}, "free": {"5"}, "name": {"x"}, "tag": {"bulb"}})
	used.want(t, 400, "Plant 5 was created by somebody else meanwhile", `name="id" value="6"`, `value="x"`, `value="bulb"`)
	c.post("/plants/new", url.Values{"id": {"5"}, "free": {"4"}, "name": {"x"}}).want(t, 400, "Error 40041",
		`name="id" value="5"`, "6 is free.")
	c.get("/plants/5?done=replayed").want(t, 200, "had this plant already", "(empty)")
	c.post("/plants/new", url.Values{"id": {"5"}, "name": {"other"}}).want(t, 400, "Error 40041", `value="other"`)
	c.post("/plants/new", url.Values{"id": {`1,"x":2`}, "name": {"a"}}).want(t, 400, "Error 40012")
	c.post("/plants/new", url.Values{"id": {"9223372036854775808"}, "name": {"a"}}).want(t, 400, "Error 40014")
	c.post("/plants/new", url.Values{"name": {strings.Repeat("x", 200<<10)}}).want(t, 413)
}

func TestCredentialsPage(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	mint := url.Values{"name": {"shop"}, "scope": {"plants:create", "plants:read"}, "lifetime": {"90d"}}
	res := c.post("/credentials/mint", mint)
	res.want(t, 200, "It is not shown again", "curl https://plants.example/plants")
	secret := regexp.MustCompile(`pst_\w{49}`).FindString(res.body)
	p, err := h.writePath.Authenticate(t.Context(), secret)
	if err != nil || p.Name != "shop" || p.Scopes != auth.ScopeCreate|auth.ScopeRead {
		t.Fatalf("got %+v, %v", p, err)
	}
	if strings.Contains(c.get("/credentials").body, secret) {
		t.Error("the list has the secret")
	}
	// The form keeps what was entered.
	c.post("/credentials/mint", mint).want(t, 409, "a valid token has the name", `value="shop"`,
		`value="plants:read" checked`, `<option value="90d" selected>`)
	c.post("/credentials/mint", url.Values{"name": {"y"}, "lifetime": {"30d"}}).want(t, 400, `value="y"`,
		`<option value="30d" selected>`, `value="plants:create">`, "choose one or more scopes")
	c.post("/credentials/mint", url.Values{"name": {"x"}, "scope": {"console"}, "lifetime": {"1d"}}).want(t, 400)
	c.post("/credentials/mint", url.Values{"name": {"x"}, "scope": {"plants"}, "lifetime": {"1d"}}).want(t, 400)
	c.post("/credentials/mint", url.Values{"name": {"x"}, "scope": {"admin"}, "lifetime": {"9999d"}}).want(t, 400)
	res = c.post("/credentials/rotate", url.Values{"name": {"shop"}, "overlap": {"0"}})
	res.want(t, 200, "the old token")
	rotated := regexp.MustCompile(`pst_\w{49}`).FindString(res.body)
	h.awaitInvalid(secret)
	p, err = h.writePath.Authenticate(t.Context(), rotated)
	if err != nil {
		t.Fatal(err)
	}
	res = c.post("/credentials/revoke", url.Values{"id": {fmt.Sprint(p.TokenID)}})
	if res.status != 303 || res.Header.Get("Location") != "/credentials?done=revoked" {
		t.Errorf("got %d to %q", res.status, res.Header.Get("Location"))
	}
	h.awaitInvalid(rotated)
	c.post("/credentials/revoke", url.Values{"id": {"99999"}}).want(t, 404, `role="alert"`,
		"no such token, or it is already revoked", "Valid credentials")
	c.get("/credentials?state=all").want(t, 200, "revoked", "expired")
}

// A filter in the address selects credentials, on every page of the list, and the form shows it.
func TestCredentialsFilter(t *testing.T) {
	t.Parallel()
	h := start(t)
	now := time.Now()
	create := func(name string, expires time.Duration) {
		h.create(auth.Token{
			Name: name, Hash: auth.HashOf(auth.Mint()), Scopes: auth.ScopeCreate, CreatedAt: now.Add(-48 * time.Hour),
			ExpiresAt: now.Add(expires),
		})
	}
	for i := range 45 {
		create(fmt.Sprintf("Web shop %02d", i), 30*24*time.Hour)
	}
	create("Soon Müller", 3*24*time.Hour)
	create("Old Müller", -time.Hour)
	c := h.signIn(h.mint("late", auth.ScopeAdmin)) // the server reads all tokens, because it does not know this one
	name := regexp.MustCompile(`<td><strong><bdi class="breaks">([^<]*)<`)
	list := func(query string) (names string) {
		res := c.get("/credentials?" + query)
		for {
			res.want(t, 200)
			for _, m := range name.FindAllStringSubmatch(res.body, -1) {
				names += m[1] + ","
			}
			if !strings.Contains(res.body, ">Next<") {
				return names
			}
			res = c.follow(res, "Next")
		}
	}
	for query, want := range map[string]string{
		"name=M%C3%9CLLER": "Soon Müller,", "name=m%C3%BCller&state=all": "Old Müller,Soon Müller,",
		"state=expiring": "Soon Müller,", "state=expired": "Old Müller,", "state=revoked": "", "kind=subject": "",
		"state=ended-used": "",
	} {
		if got := list(query); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	if got := strings.Count(list("name=shop"), "Web shop"); got != 45 {
		t.Errorf("got %d names on all pages, want 45", got)
	}
	c.get("/credentials?name=shop&state=expiring").want(t, 200, `value="shop"`, `<option value="expiring" selected>`,
		"No credentials match.", "0 credentials")
	c.get("/").want(t, 200, `<a href="/credentials?state=expiring">1 credential about to expire</a>`)
}

// The page shows first which expired and revoked tokens clients still send, and the form says what the scopes allow.
func TestEndedCredentialsOnPage(t *testing.T) {
	t.Parallel()
	h := start(t)
	secret := h.mint("Web shop", auth.ScopeRead)
	c := h.signIn(h.admin)
	page := c.get("/credentials")
	if strings.Contains(page.body, "Ended, still used</h2>") {
		t.Error("the page has a group without a use")
	}
	for _, scope := range strings.Fields(auth.Grantable.String()) {
		if !regexp.MustCompile(`<code>` + scope + `</code> <span class="help">\w`).MatchString(page.body) {
			t.Errorf("the form does not say what %s allows", scope)
		}
	}
	selected := store.Selector{Name: "Web shop"}
	if _, err := h.engine.RevokeTokens(t.Context(), selected, time.Now(), audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	h.awaitInvalid(secret)
	(&client{h: h}).post("/sign-in", url.Values{"credential": {secret}}).want(t, 401)
	page = c.get("/credentials")
	page.want(t, 200, `<bdi class="breaks">Web shop</bdi> was revoked <time`, "from 127.0.0.1, 1 time since its end")
	if ended, form := strings.Index(page.body, `id="ended"`), strings.Index(page.body, `id="mint"`); ended > form {
		t.Error("the group is not the first one")
	}
	c.get("/").want(t, 200, "Web shop was revoked at ", `href="/credentials#ended">Credentials</a>`)
	c.get("/credentials?state=ended-used").want(t, 200, `<td data-label="Last use"><span class="state warn"><time`,
		"1 credential<")
}

// TestSessionsAndClients lists sign-ins apart, and marks the tokens of clients that expire within a week.
func TestSessionsAndClients(t *testing.T) {
	t.Parallel()
	h := start(t)
	now := time.Now()
	for name, days := range map[string]int{"soon": 6, "later": 8, "brief": 1, "console-job": 1} {
		created := now
		if days > 1 {
			created = now.Add(-48 * time.Hour)
		}
		h.create(auth.Token{
			Name: name, Hash: auth.HashOf(auth.Mint()), Scopes: auth.ScopeCreate, CreatedAt: created,
			ExpiresAt: now.AddDate(0, 0, days),
		})
	}
	c := &client{h: h}
	if res := c.post("/sign-in", url.Values{"credential": {h.code(now)}}); res.status != 303 {
		t.Fatalf("sign in: got %d", res.status)
	}
	clients, sessions, found := strings.Cut(c.get("/credentials").body, `id="sessions"`)
	name := regexp.MustCompile(`<strong><bdi class="breaks">console-[A-Z2-7]`)
	if !found || !name.MatchString(sessions) || name.MatchString(clients) {
		t.Errorf("got the clients %s and the sessions %s", clients, sessions)
	}
	for name, want := range map[string]bool{"soon": true, "later": false, "brief": false, "console-job": false} {
		row := regexp.MustCompile(`(?s)<tr>\s*<td><strong><bdi class="breaks">` + name + `<.*?</tr>`).FindString(clients)
		if got := strings.Contains(row, `<span class="state warn"><time`); row == "" || got != want {
			t.Errorf("%s: marked %t, want %t: %s", name, got, want, row)
		}
	}
	c.get("/").want(t, 200, "until <time data-clock")
	if page := h.signIn(h.admin).get("/plants"); strings.Contains(page.body, "data-clock") {
		t.Error("the page names an end of a session whose token may expire earlier")
	}
	if strings.Contains(sessions, "Rotate") || strings.Contains(sessions, `state warn"><time`) {
		t.Errorf("the sessions can be rotated or are marked: %s", sessions)
	}
}

// awaitInvalid waits until a token is invalid.
func (h *harness) awaitInvalid(secret string) {
	h.t.Helper()
	for end := time.Now().Add(wait); ; <-time.After(10 * time.Millisecond) {
		if _, err := h.writePath.Authenticate(h.t.Context(), secret); err != nil {
			return
		}
		if time.Now().After(end) {
			h.t.Fatal("the token is valid")
		}
	}
}

// TestBackups makes a backup, verifies it, restores it into a scratch file, downloads and deletes it.
func TestBackups(t *testing.T) {
	t.Parallel()
	h := start(t, manyPlants(3)...)
	c := h.signIn(h.admin)
	c.get("/backups").want(t, 200, "No backup yet.", "every hour", "keeps the last 3 backups and all manual ones",
		"<strong>Cannot be restored yet</strong>: there is no complete backup.")
	c.post("/backups/start", url.Values{})
	h.awaitJobs()
	page := c.get("/backups")
	page.want(t, 200, "manual", "complete", ">Saved 3 plants in ",
		"<strong>Can be restored to the state of each complete backup below</strong>, the last one with 3 plants <time")
	link := regexp.MustCompile(`href="/backups/([^"]+)"`).FindStringSubmatch(page.body)
	if link == nil {
		t.Fatalf("no backup in %s", page.body)
	}
	for _, operation := range []string{"verify", "drill"} {
		c.post("/backups/"+operation, url.Values{"name": {link[1]}})
		h.awaitJobs()
	}
	c.get("/backups").want(t, 200, ">Verified 3 plants in ", ">Restored and verified 3 plants in ")
	res := c.get("/backups/" + link[1])
	res.want(t, 200, "SQLite format 3\x00")
	if got := res.Header.Get("Content-Disposition"); got != "attachment; filename="+link[1] {
		t.Errorf("got %q", got)
	}
	c.get("/backups/..%2f..%2fetc%2fpasswd").want(t, 404)
	c.post("/backups/verify", url.Values{"name": {"none.db"}}).want(t, 404, `role="alert"`, "All backups", link[1])
	const loss = "nothing, until the server has made another backup"
	for _, form := range []url.Values{{}, {"loss": {loss}}, {"last": {"1"}}} { // the last backup asks for both
		form.Set("name", link[1])
		c.post("/backups/delete", form).want(t, 200, "<dialog open", "Delete <bdi", link[1], loss, `name="last"`)
	}
	res = c.post("/backups/delete", url.Values{"name": {link[1]}, "loss": {loss}, "last": {"1"}})
	if res.status != 303 {
		t.Errorf("delete: got %d, %s", res.status, res.body)
	}
	c.get("/backups?done=deleted").want(t, 200, "No backup yet.", "The backup is deleted.")
	c.get("/").want(t, 200, "There is no complete backup")
	c.get("/audit").want(t, 200, "backup.drill", "backup.delete", "operator")
}

// TestDeleteOfBackups deletes backups: the page asks again before the one that an older state needs, and not before one
// whose commits the segments have.
func TestDeleteOfBackups(t *testing.T) {
	t.Parallel()
	h := start(t, manyPlants(3)...)
	c := h.signIn(h.admin)
	h.backups.Start()
	awaitCopy := func() {
		for at := time.Now(); h.backups.Schedule().Copied.Before(at); {
			<-time.After(10 * time.Millisecond)
		}
	}
	awaitCopy() // which needs the first backup
	h.mint("another", auth.ScopeCreate)
	for range 2 {
		c.post("/backups/start", url.Values{})
		h.awaitJobs()
	}
	awaitCopy()
	all, err := h.backups.List(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("got %+v, %v", all, err)
	}
	newest, first := all[0].Name, ""
	for _, b := range all {
		if !b.Manual {
			first = b.Name
		}
	}
	if res := c.post("/backups/delete", url.Values{"name": {newest}}); res.status != 303 {
		t.Errorf("delete of the newest one: %d, %s", res.status, res.body)
	}
	page := c.post("/backups/delete", url.Values{"name": {first}})
	loss := regexp.MustCompile(`name="loss" value="(nothing from before [-0-9: ]+ UTC)"`).FindStringSubmatch(page.body)
	if page.status != 200 || loss == nil || strings.Contains(page.body, `name="last"`) {
		t.Fatalf("delete of the first one: %d, %s", page.status, page.body)
	}
	if res := c.post("/backups/delete", url.Values{"name": {first}, "loss": {loss[1]}}); res.status != 303 {
		t.Errorf("delete of the first one again: %d, %s", res.status, res.body)
	}
}

// TestBackupsWithoutList removes the directory of the backups: no page says that there is no backup.
func TestBackupsWithoutList(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	c.post("/backups/start", url.Values{})
	h.awaitJobs()
	all, err := h.backups.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
	destination := filepath.Dir(all[0].Location)
	if err := os.Rename(destination, destination+".away"); err != nil {
		t.Fatal(err)
	}
	page := c.get("/")
	page.want(t, 200, "The server could not list the backups: open "+destination+": no such file or directory.")
	list := c.get("/backups")
	list.want(t, 200, "Back up now",
		"The server could not list the backups: open "+destination+": no such file or directory.")
	if strings.Contains(page.body+list.body, "no complete backup") || strings.Contains(list.body, "No backup yet") {
		t.Errorf("got %s and %s", page.body, list.body)
	}
}

// awaitJobs waits until no job runs.
func (h *harness) awaitJobs() {
	h.t.Helper()
	for _, job := range h.backups.Jobs() {
		for job.Ended.IsZero() {
			<-time.After(time.Millisecond)
			var err error
			if job, err = h.backups.Job(job.ID); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

// follow returns the page of a link with a text.
func (c *client) follow(page response, text string) response {
	c.h.t.Helper()
	link := regexp.MustCompile(`href="([^"]*)">` + regexp.QuoteMeta(text) + `<`).FindStringSubmatch(page.body)
	if link == nil {
		c.h.t.Fatalf("the page has no link %s", text)
	}
	return c.get(html.UnescapeString(link[1]))
}

// TestAuditFilter selects entries by event, actor and day, and keeps the selection on the next page.
func TestAuditFilter(t *testing.T) {
	t.Parallel()
	h := start(t)
	for i := range 60 {
		by := audit.Actor{Kind: audit.User, ID: fmt.Sprint(1000 + i%2), Name: []string{"alice", "bob"}[i%2]}
		event := audit.Event{
			Time: time.Date(2026, 1, 1+i/30, 0, 0, i, 0, time.UTC), Action: audit.ServerReload, Origin: audit.Origin{Actor: by},
			Details: []audit.Detail{{Key: "n", Value: fmt.Sprintf("<%d>", i)}},
		}
		if err := h.engine.AppendAudit(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	c := h.signIn(h.admin)
	sequences := func(page response) (list []string) {
		for _, match := range regexp.MustCompile(`<tr><td class="num">(\d+)<`).FindAllStringSubmatch(page.body, -1) {
			list = append(list, match[1])
		}
		return list
	}
	for query, want := range map[string]int{
		"action=server": 50, "action=server.reload&actor=alice": 30, "actor=1001&since=2026-01-02": 15,
		"since=2026-01-01&until=2026-01-01": 30, "until=2025-12-31": 0, "action=token&until=2026-01-02": 0, "actor=nobody": 0,
	} {
		if got := sequences(c.get("/audit?" + query)); len(got) != want {
			t.Errorf("%s: got the entries %v, want %d", query, got, want)
		}
	}
	page := c.get("/audit?action=server.reload&until=2026-01-02")
	page.want(t, 200, `<option value="server.reload" selected>server.reload</option>`, `value="2026-01-02"`,
		`href="/audit?action=server.reload"`, `href="/audit?actor=bob"`, "&lt;59&gt;", "1–50")
	if next := c.follow(page, "Next"); len(sequences(next)) != 10 {
		t.Errorf("next page: got the entries %v, want 10", sequences(next))
	}
	c.get("/audit?since=monday").want(t, 400,
		"the first day must have the form 2026-11-22; got &#34;monday&#34;", `value="monday"`)
	c.get("/audit?until=9999-12-31").want(t, 200)
	c.get("/audit?actor=nobody").want(t, 200, "No entries match.")
}

func TestAuditPages(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	for i := range 60 {
		h.mint(fmt.Sprintf("token-%d", i), auth.ScopeRead)
	}
	first := c.get("/audit")
	first.want(t, 200, "token-59<")
	c.follow(first, "Next").want(t, 200, "token-1<", ">Previous<")
	c.get("/audit?at=50.x").want(t, 400)
	c.get("/settings").want(t, 200, "127.0.0.1:8080", "default", "address of the public listener<",
		`<h2 id="changed">Changed (3)</h2>`, `<h2 id="group-limits">Limits (2)</h2>`)
	c.get("/reference").want(t, 200, "https://plants.example/openapi.json")
}

// The headers of pages protect the browser, and no page names another host.
func TestPageHeaders(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	for _, path := range []string{"/", "/plants", "/sign-in", "/plants/1"} {
		res := c.get(path)
		policy := res.Header.Get("Content-Security-Policy")
		for _, directive := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'",
		} {
			if !strings.Contains(policy+";", directive+";") {
				t.Errorf("%s: the policy %q lacks %s", path, policy, directive)
			}
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			"X-Content-Type-Options": "nosniff",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %s: got %q, want %q", path, name, got, want)
			}
		}
		if inline := regexp.MustCompile(`<script>|<style|\son[a-z]+=|\sstyle=`).FindString(res.body); inline != "" {
			t.Errorf("%s: the page has inline %q", path, inline)
		}
	}
}

// TestNewStore shows what to try and what happened instead of zeros, until the store has a plant.
func TestNewStore(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	page := c.get("/")
	page.want(t, 200, "What to try", "curl https://plants.example/plants", "What happened", "created the token",
		`<a href="/plants">no plants yet</a>, <a href="/backups">no backup yet</a>.`)
	live := regexp.MustCompile(`data-live="([^"]+)"`).FindStringSubmatch(page.body)
	if live == nil || strings.Contains(page.body, "tile-plants") || c.alert(html.UnescapeString(live[1])) {
		t.Fatalf("got %s", page.body)
	}
	c.post("/plants/new", url.Values{"id": {"1"}, "name": {"Rosa"}})
	if !c.alert(html.UnescapeString(live[1])) {
		t.Error("the page is not loaded again after the first plant")
	}
	for end := time.Now().Add(wait); !strings.Contains(c.get("/").body, `<a href="/plants">1 plant</a>`); {
		if time.Now().After(end) {
			t.Fatal("the summary does not count the plant")
		}
	}
	c.get("/").want(t, 200, "tile-plants")
	c.post("/backups/start", url.Values{})
	h.awaitJobs()
	h.deliveries = map[int64]webhook.Status{1: {Failures: 2, Reason: "status 500"}, 2: {Gone: true}, 3: {}}
	c.get("/").want(t, 200, `<a href="/webhooks">2 webhooks failing</a>`)
}

// The overview and its update show the samples of the metrics.
func TestOverview(t *testing.T) {
	t.Parallel()
	h := start(t, manyPlants(7)...)
	c := h.signIn(h.admin)
	for range 2 {
		c.post("/plants/new", url.Values{"id": {"100"}, "name": {"a"}})
	}
	h.console.Sample(10 * time.Second)
	c.get("/?range=24h").want(t, 200, "on stable storage of this machine", "Plants stored", `<path class="line l0" d="M`)
	creates := func() (now string) {
		h.console.Sample(10 * time.Second)
		var live struct {
			Charts []struct {
				ID    string
				Lines []struct{ Path, Now string }
			}
			Alert bool
		}
		res := c.get("/live?range=1h&warnings=none")
		if err := json.Unmarshal([]byte(res.body), &live); err != nil || !live.Alert || len(live.Charts) != 6 {
			t.Fatalf("got %v: %s", err, res.body)
		}
		if live.Charts[0].ID != "creates" || live.Charts[0].Lines[0].Path == "" {
			t.Fatalf("creates: got %+v", live.Charts[0])
		}
		return live.Charts[0].Lines[0].Now
	}
	const want = "0.1"
	got := creates()
	for end := time.Now().Add(wait); got != want && time.Now().Before(end); got = creates() { // the console also samples
	}
	if got != want {
		t.Errorf("creates: got %s, want %s a second", got, want)
	}
}

// The requests that an open page sends by itself fill no access log.
func TestBackgroundRoutes(t *testing.T) {
	t.Parallel()
	h := start(t)
	sent := map[string]bool{"/session": true, "/import/{id}/live": true} // by static/connection.js and static/import.js
	for _, match := range regexp.MustCompile(`(?:data-live|src|href)="(/(?:static/[^"]+|live)[^"?]*)`).
		FindAllStringSubmatch(h.signIn(h.admin).get("/").body, -1) {
		sent[match[1]] = true
	}
	if len(sent) < 5 {
		t.Errorf("the page sends only %v", sent)
	}
	for _, route := range h.routes {
		if want := sent[route.Path] || strings.HasPrefix(route.Path, "/static/"); route.Background != want {
			t.Errorf("%s %s: Background is %t, want %t", route.Method, route.Path, route.Background, want)
		}
		delete(sent, route.Path)
	}
	if len(sent) > 0 {
		t.Errorf("no routes %v", sent)
	}
}

// TestRelativeTimes shows that a page has a time as a person compares it with now, and the exact one as a title.
func TestRelativeTimes(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]string{
		0:                               "just now",
		59 * time.Second:                "59 s ago",
		90 * time.Second:                "1 min ago",
		15 * time.Minute:                "15 min ago",
		-time.Hour:                      "in 1 hour",
		47 * time.Hour:                  "1 day ago",
		-90*24*time.Hour - time.Second:  "in 90 days",
		2*time.Hour + 59*time.Minute:    "2 hours ago",
		-(15*time.Minute - time.Second): "in 14 min",
	} {
		if got := console.FormatAgo(age); got != want {
			t.Errorf("%s: got %q, want %q", age, got, want)
		}
	}
	h := start(t)
	now := time.Now().UTC().Truncate(time.Second)
	end := now.Add(36 * time.Hour)
	h.create(auth.Token{
		Name: "shop", Hash: auth.HashOf(auth.Mint()), Scopes: auth.ScopeRead, CreatedAt: now, ExpiresAt: end,
	})
	h.signIn(h.admin).get("/credentials").want(t, 200,
		end.Format(`<time data-ago datetime="`+time.RFC3339+`" title="2006-01-02 15:04:05 UTC">`)+"in 1 day</time>")
}
