package console_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// upload sends a form with a file, as a browser without scripts does.
func (c *client) upload(fields [][2]string, name, file string, header ...string) response {
	c.h.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, f := range fields {
		if err := form.WriteField(f[0], f[1]); err != nil {
			c.h.t.Fatal(err)
		}
	}
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

// Without scripts, the form imports a file and the page shows the result, with the rejects to download.
func TestImportForm(t *testing.T) {
	t.Parallel()
	h := start(t, stored(2, "Quercus", plant.Tag{}))
	c := h.signIn(h.admin)
	c.get("/import").want(t, 200, `enctype="multipart/form-data"`, `href="/import" aria-current="page"`)
	fields := [][2]string{{"format", ""}, {"on-conflict", "report"}}
	res := c.upload(fields, "<b>plants.csv", "id,name\n1,Rosa\n2,<script>alert(1)</script>\nx,y\n")
	page := res.Header.Get("Location")
	if res.status != 303 || !strings.HasPrefix(page, "/import/") {
		t.Fatalf("got %d to %q: %s", res.status, page, res.body)
	}
	c.get(page).want(t, 200, "&lt;b&gt;plants.csv", `data-count="created">1<`, "2,&lt;script&gt;alert(1)&lt;/script&gt;",
		`<td class="num" data-label="Line">4</td>`, page+"/rejects?report", "Download the rows, correct them")
	c.get(page+"/rejects").want(t, 200, "id,name\r\n2,<script>alert(1)</script>\r\nx,y\r\n")
	c.get(page+"/rejects?report").want(t, 200, "line,reason,row\r\n")
	c.get(page+"/live").want(t, 200, `"state":"complete"`)
	c.get("/import").want(t, 200, page, "&lt;b&gt;plants.csv")
	c.get("/plants/1").want(t, 200, "Rosa", `<bdi class="breaks">operator</bdi>`)
	h.awaitAudit(audit.PlantsImport, "file=<b>plants.csv")
	res = c.upload([][2]string{{"format", "csv"}, {"on-conflict", "fail"}}, "a", "id,name\n2,Other\n")
	c.get(res.Header.Get("Location")).want(t, 200, "line 2 conflicts with a stored plant", ">failed<",
		"Import the same file again to continue")
	for name, res := range map[string]response{
		"no format":  c.upload(fields, "plants", "id,name\n"),
		"no choice":  c.upload([][2]string{{"format", "csv"}}, "a", "id,name\n"),
		"no file":    c.upload(fields, "", ""),
		"many":       c.upload(make([][2]string, 20), "a.csv", ""),
		"no form":    c.send("/import", "x", "Content-Type: multipart/form-data"),
		"cut":        c.send("/import", "--x\r\n", "Content-Type: multipart/form-data; boundary=x"),
		"cross site": c.upload(fields, "a.csv", "id,name\n7,A\n", "Origin: https://evil.example"),
	} {
		want := http.StatusBadRequest
		switch name {
		case "no form":
			want = http.StatusUnsupportedMediaType
		case "cross site":
			want = http.StatusForbidden
		}
		if res.status != want {
			t.Errorf("%s: got %d: %s", name, res.status, res.body)
		}
	}
	if _, err := h.engine.Get(t.Context(), 7); err == nil {
		t.Error("a page of another site imported a plant")
	}
}

// The operation of the script has JSON for the state and for errors. A session of another credential does not see the
// import, unless it has the scope admin.
func TestImportOfScript(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.mint("nursery", auth.ScopeRead|auth.ScopeCreate))
	const media = "Content-Type: application/octet-stream"
	c.send("/import/a?name=a.csv&on-conflict=report&format=", "id,name\n1,A\n", media).want(t, 200,
		`"state":"complete"`, `"created":1`)
	c.get("/import/a").want(t, 200, "Every row of the file is stored.")
	h.signIn(h.mint("other", auth.ScopeRead|auth.ScopeCreate)).get("/import/a").want(t, 404)
	operator := h.signIn(h.mint("watcher", auth.ScopeAdmin)) // without the scope plants:create
	operator.get("/import").want(t, 200, `href="/import/a"`, "You can see and cancel imports.")
	operator.get("/import/a").want(t, 200)
	operator.get("/import/a/live").want(t, 200)
	operator.post("/import/a/cancel", nil).want(t, 303)
	operator.send("/import/b?name=a.csv&on-conflict=report&format=", "id,name\n1,A\n", media).want(t, 403)
	const accept = "Accept: application/json"
	c.send("/import/a?name=a&on-conflict=report&format=", "", media, accept).want(t, 400,
		`{"error":40061,"message":"the format is unknown`)
	c.send("/import/a?name=a.csv&on-conflict=x&format=", "", media, accept).want(t, 400, `"error":40061`)
	c.send("/import/a", "", media, "Sec-Fetch-Site: cross-site").want(t, 403)
	c.send("/import/a", "", "Content-Type: text/plain").want(t, 415)
	c.post("/import/a/cancel", nil).want(t, 303)
	for i := range 3 {
		name := fmt.Sprint("b", i)
		c.send("/import/"+name+"?name=a.csv&on-conflict=report", "id\n", media).want(t, 200, `"state":"failed"`)
	}
}
