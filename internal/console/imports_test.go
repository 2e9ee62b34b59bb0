package console_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// upload sends a form with a file, as a browser without scripts does.
func (c *client) upload(name, file string, header ...string) response {
	c.h.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if part, err := form.CreateFormFile("file", name); err != nil {
		c.h.t.Fatal(err)
	} else if _, err := io.WriteString(part, file); err != nil {
		c.h.t.Fatal(err)
	}
	if err := form.Close(); err != nil {
		c.h.t.Fatal(err)
	}
	return c.send("/import", body.String(), append([]string{"Content-Type: " + form.FormDataContentType()}, header...)...)
}

// keep uploads a file and returns the path of the page of its import.
func (c *client) keep(name, file string) (page string) {
	c.h.t.Helper()
	res := c.upload(name, file)
	if page = res.Header.Get("Location"); res.status != 303 || !strings.HasPrefix(page, "/import/") {
		c.h.t.Fatalf("got %d to %q: %s", res.status, page, res.body)
	}
	return page
}

// step sends a form of the page of an import, and returns the page after the step.
func (c *client) step(page, name string, form url.Values) response {
	c.h.t.Helper()
	if res := c.post(page+"/"+name, form); res.status != 303 {
		c.h.t.Fatalf("%s: got %d: %s", name, res.status, res.body)
	}
	for {
		if res := c.get(page); !strings.Contains(res.body, "data-watch") {
			return res
		}
	}
}

// start starts the import of the last check, and returns the page after it.
func (c *client) start(page string, checked response) response {
	c.h.t.Helper()
	check := regexp.MustCompile(`name="check" value="(\d+)"`).FindStringSubmatch(checked.body)
	if check == nil {
		c.h.t.Fatalf("the page cannot start an import: %s", checked.body)
	}
	return c.step(page, "start", url.Values{"check": {check[1]}})
}

// send sends a POST request with headers of the form Name: value.
func (c *client) send(target, body string, headers ...string) response {
	c.h.t.Helper()
	req, err := http.NewRequestWithContext(
		c.h.t.Context(), http.MethodPost, "http://"+c.h.host+target, strings.NewReader(body),
	)
	if err != nil {
		c.h.t.Fatal(err)
	}
	req.Header.Set("Cookie", c.cookie)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.h.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.h.t.Fatal(err)
	}
	return response{res, res.StatusCode, strings.ReplaceAll(string(text), "<wbr>", "")}
}

// columns returns the form of a file whose columns are the ids and the names.
func columns(choices ...string) url.Values {
	return url.Values{"column": choices, "ids": {"column"}, "encoding": {""}}
}

// Without scripts, a person chooses a file and its columns, sees what would happen, and imports it.
func TestImportForm(t *testing.T) {
	t.Parallel()
	h := start(t, stored(2, "Quercus", plant.Tag{}))
	c := h.signIn(h.admin)
	c.get("/import").want(t, 200, `enctype="multipart/form-data"`, `href="/import" aria-current="page"`)
	page := c.keep("<b>plants.csv", "nr;Scientific name;tags\n1;Rosa;<i>\n2;<script>alert(1)</script>;\nx;y;\n")
	c.get(page).want(t, 200, "&lt;b&gt;plants.csv", "semicolons",
		`<td dir="auto">&lt;script&gt;alert(1)&lt;/script&gt;</td>`,
		`<option value="name" selected>Name`, `<option value="tag" selected>Tag`, `value="text" checked`)
	form := columns("id", "name", "")
	checked := c.step(page, "check", form)
	checked.want(t, 200, "1 new, 2 with a fault. Nothing is stored yet.", "Import 1 new plant<",
		`<td class="num" data-label="Line">4</td>`, "Download with reasons", page+"?columns")
	c.get(page+"?columns").want(t, 200, `value="column" checked`, `<option value="id" selected>Id`)
	c.get("/plants/1").want(t, 404)
	c.get("/import").want(t, 200, "has not ended", `href="`+page+`"`)
	c.get(page+"/rejects?report").want(t, 200, "x;y;")
	c.start(page, checked).want(t, 200, `<span class="state warn">1 stored, 2 not</span>`, `data-count="created">1<`,
		"2;&lt;script&gt;alert(1)&lt;/script&gt;", "Download the rows, correct them")
	c.get(page+"/rejects").want(t, 200, "nr;Scientific name;tags\r\n2;<script>alert(1)</script>;\r\nx;y;\r\n")
	c.get(page+"/live").want(t, 200, `"state":"complete"`)
	c.get("/import").want(t, 200, page, "&lt;b&gt;plants.csv", `enctype="multipart/form-data"`)
	c.get("/plants/1").want(t, 200, "Rosa", `<bdi class="breaks">operator</bdi>`)
	h.awaitAudit(audit.PlantsImport, "file=<b>plants.csv")

	page = c.keep("a", "name\nRosa\n")
	checked = c.step(page, "check", url.Values{"column": {"name"}, "ids": {"numbers"}, "first": {" 100 "}})
	c.start(page, checked).want(t, 200, `<span class="state good">1 stored</span>`, "Every row of the file is stored.")
	c.get("/plants/100").want(t, 200, "Rosa")
	page = c.keep("a.json", "{\"id\":2,\"name\":\"Other\"}\n{}\n")
	c.get(page).want(t, 200, "JSON Lines", ">Other<", "id is missing")
	c.step(page, "check", url.Values{}).want(t, 200, "0 new, 2 with a fault")
	if body := c.get(page).body; strings.Contains(body, "/start") {
		t.Error("a check without new plants leads to an import")
	}
	c.step(page, "cancel", url.Values{}).want(t, 200, "canceled", "Nothing new is stored")
}

// A file that is not UTF-8 is most likely from an old Windows. A person sees it in another encoding.
func TestImportEncoding(t *testing.T) {
	t.Parallel()
	h := start(t)
	s := h.signIn(h.admin)
	page := s.keep("a.csv", "id;name\n1;S\xe4uleneiche\n")
	s.get(page).want(t, 200, "probably in windows-1252", "Säuleneiche")
	form := columns("id", "name")
	s.get(page+"?"+form.Encode()).want(t, 200, "in UTF-8", "S\uFFFDuleneiche")
	form.Set("encoding", "windows-1252")
	s.start(page, s.step(page, "check", form)).want(t, 200, "1 stored")
	s.get("/plants/1").want(t, 200, "Säuleneiche")
}

// A form that is refused is shown again with the reason and the choices.
func TestImportFormRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	for name, res := range map[string]response{
		"no name": c.upload("", ""),
		"other part": c.send("/import", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--x--\r\n",
			"Content-Type: multipart/form-data; boundary=x"),
		"no end": c.send("/import", "--x\r\nContent-Disposition: form-data; name=file; filename=a.csv\r\n\r\nid,name\n",
			"Content-Type: multipart/form-data; boundary=x"),
		"no part":    c.send("/import", "--x--\r\n", "Content-Type: multipart/form-data; boundary=x"),
		"cut":        c.send("/import", "--x\r\n", "Content-Type: multipart/form-data; boundary=x"),
		"no form":    c.send("/import", "x", "Content-Type: multipart/form-data"),
		"cross site": c.upload("a.csv", "id,name\n7,A\n", "Origin: https://evil.example"),
	} {
		want := map[string]int{"no form": 415, "cross site": 403}[name]
		if want == 0 {
			want = 400
		}
		if res.status != want {
			t.Errorf("%s: got %d: %s", name, res.status, res.body)
		}
	}
	page := c.keep("a.csv", "id,name,name\n1,A,B\n")
	c.upload("b.csv", "id,name\n").want(t, 409, "continue or cancel it")
	for _, row := range []struct {
		form url.Values
		want string
	}{
		{url.Values{}, "no column is the name"},
		{columns("id", ""), "no column is the name"},
		{columns("", "name"), "0 columns are the id"},
		{columns("id", "name", "id"), "2 columns are the id"},
		{columns("id", "name", "name"), "two columns are the name"},
		{url.Values{"column": {"", "name"}, "ids": {"numbers"}, "first": {"x"}}, "the first number must be a whole number"},
		{columns("id", "name", "", "", "tag"), ""}, // more than the file has,
	} {
		res := c.post(page+"/check", row.form)
		if row.want == "" {
			c.step(page, "check", row.form).want(t, 200, "The check ended:", "the column name twice")
		} else {
			res.want(t, 400, row.want, "Choose what each column is")
		}
	}
	c.post(page+"/check", columns("tag", "", "")).want(t, 400, `<option value="tag" selected>Tag`)
	c.post(page+"/start", url.Values{"check": {"0"}}).want(t, 409, "look at the result of the last check")
	if _, err := h.engine.Get(t.Context(), 7); err == nil {
		t.Error("a page of another site imported a plant")
	}
}

// A session of another credential does not see an import, unless it has the scope admin.
func TestImportOfOther(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.mint("nursery", auth.ScopeRead|auth.ScopeCreate))
	page := c.keep("a.csv", "id,name\n1,A\n")
	other := h.signIn(h.mint("other", auth.ScopeRead|auth.ScopeCreate))
	operator := h.signIn(h.mint("watcher", auth.ScopeAdmin)) // without the scope plants:create
	for _, path := range []string{"", "/live", "/rejects"} {
		other.get(page+path).want(t, 404)
	}
	for _, path := range []string{"/check", "/start", "/cancel"} {
		other.post(page+path, columns("id", "name")).want(t, 404)
		if path != "/cancel" {
			operator.post(page+path, columns("id", "name")).want(t, 403)
		}
	}
	operator.get("/import").want(t, 200, `href="`+page+`"`, "You can see and cancel imports.")
	operator.get(page).want(t, 200)
	operator.get(page+"/live").want(t, 200, `"state":"ready"`)
	operator.post(page+"/cancel", url.Values{}).want(t, 303)
	c.get(page).want(t, 200, ">canceled<")
	const accept = "Accept: application/json"
	c.send("/import", "", "Content-Type: text/plain", accept).want(t, 415, `"error":41501`)
}
