package adminapi_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// importing is a client with a token that creates plants.
type importing struct {
	*harness

	token string
}

func (h *harness) importing(name string, scopes auth.Scopes) importing {
	return importing{h, h.mint(name, scopes|auth.ScopeCreate)}
}

// put sends a file, and further headers of the form Name: value.
func (c importing) put(target, file string, headers ...string) response {
	c.t.Helper()
	return c.do(http.MethodPut, target, file, headers...)
}

func (c importing) do(method, target, body string, headers ...string) response {
	c.t.Helper()
	headers = append([]string{"Authorization: Bearer " + c.token, "Content-Type: text/csv"}, headers...)
	res := c.send(method, target, body, headers...)
	defer res.Body.Close()
	return c.read(res)
}

func (c importing) get(target string) response { return c.do(http.MethodGet, target, "") }

// state returns the state of an import.
func (c importing) state(id string) (i admin.Import) {
	c.t.Helper()
	got := c.get("/imports/" + id)
	if got.status == http.StatusOK {
		c.decode(got, &i)
	}
	return i
}

func (c importing) decode(r response, into any) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(r.body), into); err != nil {
		c.t.Fatalf("%+v: %v", r, err)
	}
}

// await waits until an import fulfils a condition.
func (c importing) await(id string, condition func(admin.Import) bool) admin.Import {
	c.t.Helper()
	for deadline := time.Now().Add(wait); ; {
		i := c.state(id)
		if condition(i) {
			return i
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the import is still %+v", i)
		}
	}
}

const mixedFile = "id,name,tag\r\n1,Rosa canina,shrub\r\n2,Acer,tree\r\n3,Quercus petraea,tree\r\nfive,=Ulmus,\r\n" +
	"4,Tilia,tree\r\n"

// An import stores the plants of its credential, counts the rows, and keeps those that it does not store. The metrics,
// the outbox and the audit log have its plants.
func TestImport(t *testing.T) {
	t.Parallel()
	h := start(t, setup{plants: []store.Create{
		create(2, "Acer", plant.Tagged("tree")), create(3, "Quercus robur", plant.Tagged("tree")),
	}})
	if _, err := h.engine.SetWebhooks(t.Context(), []string{"https://hooks.example/"}, audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	c := h.importing("nursery", 0)
	got := c.put("/imports/spring?name=plants.csv&on_conflict=report", mixedFile)
	var i admin.Import
	c.decode(got, &i)
	if i.EndedAt.Before(i.StartedAt) || i.StartedAt.IsZero() {
		t.Errorf("times: got %s to %s", i.StartedAt, i.EndedAt)
	}
	size := len(mixedFile)
	const found = `"found":{"format":"csv","encoding":"UTF-8","separator":",",` +
		`"columns":{"id":"id","name":"name","tag":"tag"}},`
	want := fmt.Sprintf(`{"id":"spring","name":"plants.csv","format":"csv","on_conflict":"report","state":"complete",`+
		`"by":"nursery","started_at":%q,"ended_at":%q,"bytes":%d,"total":%d,"created":2,"existing":1,"conflicting":1,`+
		`"invalid":1,%s"rejects_kept":2,"rejects":[`+
		`{"line":4,"reason":"id 3: a plant with this id is stored with a different name",`+
		`"text":"3,Quercus petraea,tree"},{"line":5,"reason":"id must be a 64-bit integer in decimal digits; got \"five\"",`+
		`"text":"five,=Ulmus,"}]}`, i.StartedAt.Format(time.RFC3339Nano), i.EndedAt.Format(time.RFC3339Nano), size, size,
		found)
	check(t, "import", got, ok(want))
	check(t, "state", c.get("/imports/spring"), ok(want))
	list := strings.Replace(want[:strings.Index(want, `,"rejects":[`)]+"}", found, "", 1)
	check(t, "list", c.get("/imports"), ok(`{"imports":[`+list+`]}`))
	check(t, "rows", c.get("/imports/spring/rejects"), response{
		200, "text/csv; charset=utf-8", "\uFEFFid,name,tag\r\n3,Quercus petraea,tree\r\nfive,=Ulmus,\r\n",
	})
	check(t, "report", c.get("/imports/spring/rejects?form=report"), response{
		200, "text/csv; charset=utf-8",
		"\uFEFFline,reason,row\r\n" +
			"4,id 3: a plant with this id is stored with a different name,\"3,Quercus petraea,tree\"\r\n" +
			"5,\"id must be a 64-bit integer in decimal digits; got \"\"five\"\"\",\"five,=Ulmus,\"\r\n",
	})
	check(t, "canceled after its end", c.do(http.MethodPost, "/imports/spring/cancel", ""), ok(want))
	for id, name := range map[int64]string{1: "Rosa canina", 4: "Tilia"} {
		p, err := h.engine.Get(t.Context(), id)
		if err != nil || p.Name != name || p.CreatedBy != "nursery" {
			t.Errorf("plant %d: got %+v, %v", id, p, err)
		}
	}
	totals, err := h.engine.OutboxTotals(t.Context())
	if err != nil || totals[1].Pending != 2 {
		t.Errorf("the outbox has %+v, %v; want 2 events", totals, err)
	}
	h.checkMetrics(map[string]float64{"plantstore_plants_created_total": 2, "plantstore_plants_replayed_total": 1})
	h.checkEntry("nursery", "conflicting=1 created=2 existing=1 file=plants.csv invalid=1 result=complete")
}

// checkMetrics compares the values of counters.
func (h *harness) checkMetrics(want map[string]float64) {
	h.t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		if value, ok := want[f.GetName()]; ok && f.GetMetric()[0].GetCounter().GetValue() != value {
			h.t.Errorf("%s: got %v, want %v", f.GetName(), f.GetMetric()[0], value)
		}
		delete(want, f.GetName())
	}
	if len(want) > 0 {
		h.t.Errorf("no metrics %v", want)
	}
}

// checkEntry compares the newest entry of the audit log about an import.
func (h *harness) checkEntry(actor, details string) {
	h.t.Helper()
	page, err := h.service.Audit(h.t.Context(), admin.AuditQuery{Limit: 100, Actor: actor})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.Action != audit.PlantsImport {
			continue
		}
		var got []string
		for _, d := range e.Details {
			got = append(got, d.Key+"="+d.Value)
		}
		if text := strings.Join(got, " "); text != details || e.Address != "127.0.0.1" || e.RequestID == "" {
			h.t.Errorf("entry: got %s from %s, request %s; want %s", text, e.Address, e.RequestID, details)
		}
		return
	}
	h.t.Errorf("the audit log has no import of %s", actor)
}

// Every format and compression has the same result.
func TestImportFormats(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c := h.importing("nursery", 0)
	for i, row := range []struct{ query, file, media string }{
		{"name=a.CSV", "id,name,tag\n1,A,x\n", "text/csv; charset=utf-8"},
		{"format=jsonl", `{"id":1,"name":"A","tag":"x"}` + "\n", "application/x-ndjson"},
		{"format=ndjson&name=a.csv", `{"id":1,"name":"A","tag":"x"}`, "application/octet-stream"},
		{"format=json", `[{"id":1,"name":"A","tag":"x"}]`, "application/json"},
		{"name=a.jsonl.gz", zipped(t, `{"id":1,"name":"A","tag":"x"}`, 1), "application/octet-stream"},
	} {
		id := fmt.Sprint("Aa.z_Z-", i)
		got := c.put("/imports/"+id+"?"+row.query, row.file, "Content-Type: "+row.media)
		if i := c.state(id); got.status != 200 || i.Created+i.Existing != 1 || i.Rejected() != 0 || i.RejectsKept != 0 {
			t.Errorf("%s: got %+v", row.query, got)
		}
		if rejects := c.get("/imports/" + id + "/rejects"); rejects.status != 200 || rejects.body != "" {
			t.Errorf("%s: rejects: got %+v", row.query, rejects)
		}
	}
}

// zipped returns members of gzip, with the text in each.
func zipped(t *testing.T, text string, members int) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.Repeat(b.String(), members)
}

// Requests that begin no import.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	h.api.SetUploadLimits(server.UploadLimits{Bytes: 1000, Idle: wait})
	c := h.importing("nursery", 0)
	const media = "Content-Type must be text/csv, application/x-ndjson, application/json, application/octet-stream or " +
		"absent; got %q; with curl, send the file with -T"
	for name, row := range map[string]struct {
		target, header string
		want           response
	}{
		"no format": {"a?name=plants", "", refused(40061,
			"the format is unknown; send format=csv, jsonl or json, or a name that ends with one")},
		"unknown format": {"a?format=xml", "", refused(40061, `unknown format "xml"; use csv, jsonl (or ndjson) or json`)},
		"unknown reaction": {
			"a?format=csv&on_conflict=x", "", refused(40061, `unknown reaction "x"; use fail, skip, report`),
		},
		"unknown parameter": {"a?format=csv&foo=1", "", refused(40061,
			`unknown query parameter "foo"; use format, name, on_conflict, dry_run, encoding, id_column, name_column, `+
				"tag_column, id_from, number_from, allow_empty_names")},
		"long name": {"a?format=csv&name=" + strings.Repeat("x", 256), "", refused(40061,
			"name has 256 bytes; at most 255 are allowed")},
		"bad id": {"a%20b?format=csv", "", refused(40061,
			`the id of an import has 1 to 64 letters, digits, '.', '_' and '-'; got "a b"`)},
		"form": {"a?format=csv", "Content-Type: text/plain", refused(41501, fmt.Sprintf(media, "text/plain"))},
		"multipart": {
			"a?format=csv", "Content-Type: multipart/form-data; boundary=x",
			refused(41501, fmt.Sprintf(media, "multipart/form-data; boundary=x")),
		},
		"curl -d": {
			"a?format=csv", "Content-Type: application/x-www-form-urlencoded",
			refused(41501, fmt.Sprintf(media, "application/x-www-form-urlencoded")),
		},
		"coded": {"a?format=csv", "Content-Encoding: gzip", refused(41502, `Content-Encoding must be absent; got "gzip"`)},
		"cross site": {"a?format=csv", "Sec-Fetch-Site: cross-site", refused(40302,
			`Sec-Fetch-Site must be same-origin or none; got "cross-site"`)},
		"other scope": {"a?format=csv", "Authorization: Bearer " + h.admins, refused(40301,
			"the credential lacks the scope plants:create")},
	} {
		headers := []string{}
		if row.header != "" {
			headers = append(headers, row.header)
		}
		got := c.put("/imports/"+row.target, "id,name\n1,A\n", headers...)
		if row.want.status == 403 && strings.Contains(row.want.body, "40301") {
			row.want.body = got.body
		}
		check(t, name, got, row.want)
	}
	check(t, "large", c.put("/imports/a?format=csv", strings.Repeat("x", 1001)),
		refused(41301, "the body is larger than 1000 bytes"))
	if list := c.get("/imports"); list.body != `{"imports":[]}`+"\n" {
		t.Errorf("got %s", list.body)
	}
	unknown := "the server has no import with this id; until it ends, it keeps the last 10 of each credential"
	for _, target := range []string{"/imports/none", "/imports/none/rejects"} {
		check(t, target, c.get(target), refused(40405, unknown))
	}
	check(t, "cancel", c.do(http.MethodPost, "/imports/none/cancel", ""), refused(40405, unknown))
	check(t, "form", c.get("/imports/none/rejects?form=x"), refused(40061, `form must be rows or report; got "x"`))
}

// Files that end an import early. The rows until then are stored.
func TestImportStops(t *testing.T) {
	t.Parallel()
	const suffix = "; created %d, existing 0, conflicting %d, invalid 0; " +
		"stored rows count as existing when you import again"
	rows := func(n int) string { // more than a batch
		var b strings.Builder
		b.WriteString("id,name\n")
		for i := range n {
			fmt.Fprintf(&b, "%d,Rosa %d\n", i+1, i)
		}
		return b.String()
	}
	gz := zipped(t, rows(3000), 1)
	for name, row := range map[string]struct {
		query, file string
		code        int
		message     string
		created     int
		conflicting int
	}{
		"conflict": {
			"format=csv", "id,name\n1,A\n1,B\n2,C\n", 40908,
			"line 3 conflicts with a stored plant; the import stopped after the batch of this row", 2, 1,
		},
		"array": {
			"format=json", `[{"id":1,"name":"A"}`, 40908,
			"could not read the rest of the input: line 1: the array is not closed", 0, 0,
		},
		"truncated": {
			"format=csv", gz[:len(gz)-200], 40908,
			"could not read the rest of the input: read line", -1, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, setup{})
			c := h.importing("nursery", 0)
			got := c.put("/imports/a?name=f&"+row.query, row.file)
			i := c.state("a")
			if row.created < 0 {
				row.created = int(i.Created)
			}
			if strings.HasPrefix(i.Error, row.message) { // the rest has the text of a library or the place
				row.message = i.Error
			}
			check(t, name, got, refused(row.code, row.message+fmt.Sprintf(suffix, row.created, row.conflicting)))
			if i.State != admin.JobFailed || i.Error != row.message || int(i.Created) != row.created {
				t.Errorf("got %+v", i)
			}
			h.checkEntry("nursery", fmt.Sprintf("conflicting=%d created=%d existing=0 file=f invalid=0 result=failed",
				row.conflicting, row.created))
		})
	}
}

// sending is an import whose body the test writes.
type sending struct {
	body io.WriteCloser
	done chan response
}

// startPut sends an import with an open body. The client of the harness must not be used for its response.
func (c importing) startPut(target string) sending {
	c.t.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPut, c.url+target, r)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	s := sending{w, make(chan response, 1)}
	go func() { // ends with the response; the tests receive it, or close the connection
		defer close(s.done)
		res, err := c.client.Do(req)
		if err != nil {
			return // the connection was closed
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		s.done <- response{res.StatusCode, res.Header.Get("Content-Type"), string(body)}
	}()
	return s
}

// write sends rows of plants, and returns when the server has read them.
func (s sending) write(t testing.TB, first, n int) {
	t.Helper()
	var b strings.Builder
	if first == 1 {
		b.WriteString("id,name\n")
	}
	for i := range n {
		fmt.Fprintf(&b, "%d,Rosa %d\n", first+i, first+i)
	}
	if _, err := io.WriteString(s.body, b.String()); err != nil {
		t.Fatal(err)
	}
}

// A cancellation keeps the stored plants, and a repetition continues.
func TestImportCanceled(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c := h.importing("nursery", 0)
	s := c.startPut("/imports/a?format=csv")
	s.write(t, 1, 2500)
	running := c.await("a", func(i admin.Import) bool { return i.Created == 2000 })
	if running.State != admin.JobRunning || running.Bytes == 0 || running.Total != nil {
		t.Errorf("got %+v", running)
	}
	check(t, "rejects", c.get("/imports/a/rejects"), refused(40907,
		"the import runs; its rejects are complete when it has ended"))
	var canceled admin.Import
	c.decode(c.do(http.MethodPost, "/imports/a/cancel", ""), &canceled)
	if canceled.State != admin.ImportCanceled || canceled.Error != "the import was canceled" || canceled.Created < 2000 {
		t.Errorf("got %+v", canceled)
	}
	want := refused(40908, fmt.Sprintf("the import was canceled; created %d, existing 0, conflicting 0, invalid 0; "+
		"stored rows count as existing when you import again", canceled.Created))
	check(t, "response", <-s.done, want)
	_ = s.body.Close()
	h.checkEntry("nursery", fmt.Sprintf(
		"conflicting=0 created=%d existing=0 file= invalid=0 result=interrupted", canceled.Created))
	s = c.startPut("/imports/a?format=csv")
	s.write(t, 1, 3000)
	_ = s.body.Close()
	got := <-s.done
	if i := c.state("a"); got.status != 200 || i.Existing != canceled.Created || i.Created != 3000-canceled.Created {
		t.Errorf("repetition: got %+v, %+v", got, i)
	}
}

// The revocation of its token ends an import, also one whose client sends nothing. Rows that arrive later are not
// stored.
func TestImportOfRevokedToken(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c, operator := h.importing("nursery", 0), h.importing("operators", auth.ScopeAdmin)
	s := c.startPut("/imports/a?format=csv")
	s.write(t, 1, 2500)
	c.await("a", func(i admin.Import) bool { return i.Created == 2000 })
	if _, err := h.engine.RevokeTokens(
		t.Context(), store.Selector{Name: "nursery"}, time.Now(), audit.Origin{},
	); err != nil {
		t.Fatal(err)
	}
	got := <-s.done
	_, _ = io.WriteString(s.body, "5000,Late\n") // fails if the server has closed the connection
	_ = s.body.Close()
	const message = "the request ended because its credential is no longer valid: it has expired or was revoked, " +
		"or the session has ended"
	i := operator.state("a")
	check(t, "response", got, refused(40102, fmt.Sprintf("%s; created %d, existing 0, conflicting 0, invalid 0; "+
		"stored rows count as existing when you import again", message, i.Created)))
	if i.State != admin.JobFailed || i.Error != message {
		t.Errorf("state: got %+v", i)
	}
	if _, err := h.engine.Get(t.Context(), 5000); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a row after the revocation: got %v", err)
	}
	h.checkEntry("nursery", fmt.Sprintf(
		"conflicting=0 created=%d existing=0 file= invalid=0 result=interrupted", i.Created))
}

// A client that disconnects in the middle ends its import.
func TestImportDisconnected(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c := h.importing("nursery", 0)
	u, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT /api/v1/imports/a?format=csv HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: 1000000\r\n\r\nid,name\n1,A\n", u.Host, c.token)
	c.await("a", func(i admin.Import) bool { return i.Bytes > 0 })
	_ = conn.Close()
	i := c.await("a", func(i admin.Import) bool { return i.State != admin.JobRunning })
	if i.State != admin.JobFailed || i.Created != 1 ||
		i.Error != "the body ended before its announced length, or has malformed chunks" {
		t.Errorf("got %+v", i)
	}
	h.checkEntry("nursery", "conflicting=0 created=1 existing=0 file= invalid=0 result=interrupted")
}

// The body must arrive in parts within a time, and within a size.
func TestImportLimits(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c := h.importing("nursery", 0)
	h.api.SetUploadLimits(server.UploadLimits{Bytes: 5000, Idle: 50 * time.Millisecond})
	slow := c.startPut("/imports/slow?format=csv")
	_, _ = io.WriteString(slow.body, "id,name\n1,A\n2,A\n") // fails if it is too late already
	late := <-slow.done                                     // the server may have read no row, one or both
	const tooSlow = `{"error":40801,"message":"no part of the body arrived within 50ms; created `
	if late.status != 408 || !strings.HasPrefix(late.body, tooSlow) {
		t.Errorf("slow: got %+v", late)
	}
	h.api.SetUploadLimits(server.UploadLimits{Bytes: 5000, Idle: wait})
	var got response
	for i := 0; got.status == 0 && i < 10; i++ { // a paused client can lose the response
		got = c.putEndless(fmt.Sprint("/imports/endless", i, "?format=csv&on_conflict=report"))
	}
	const tooLarge = `{"error":41301,"message":"the body is larger than 5000 bytes; created `
	if got.status != 413 || !strings.Contains(got.body, tooLarge) {
		t.Errorf("endless: got %+v", got)
	}
}

// putEndless sends an import whose body has no end, and returns the response.
func (c importing) putEndless(target string) response {
	c.t.Helper()
	endless := c.startPut(target)
	defer endless.body.Close()
	go func() { // ends with the connection
		for i := 1; ; i += 100 {
			if _, err := fmt.Fprintf(endless.body, "id,name\n%d,A\n", i); err != nil {
				return
			}
		}
	}()
	return <-endless.done
}

// A credential runs one import at a time, and the server two. A credential sees its own imports.
func TestImportsAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	a, b, other := h.importing("a", 0), h.importing("b", 0), h.importing("operators", auth.ScopeAdmin)
	first, second := a.startPut("/imports/a?format=csv"), b.startPut("/imports/b?format=csv")
	for _, s := range []sending{first, second} {
		s.write(t, 1, 1)
	}
	a.await("a", func(i admin.Import) bool { return i.Bytes > 0 })
	b.await("b", func(i admin.Import) bool { return i.Bytes > 0 })
	check(t, "same credential", a.put("/imports/c?format=csv", "id,name\n"), refused(40907,
		"this credential has a running import; wait for its end, or cancel it"))
	check(t, "same id", a.put("/imports/a?format=csv", "id,name\n"), refused(40907, "the id a is in use; use another one"))
	check(t, "third", other.put("/imports/c?format=csv", "id,name\n"), refused(40907,
		"2 imports are running; wait for the end of one"))
	for name, row := range map[string]struct {
		client importing
		want   int
	}{"own": {a, 1}, "all": {other, 2}} {
		if got := strings.Count(row.client.get("/imports").body, `"running"`); got != row.want {
			t.Errorf("%s: got %d imports", name, got)
		}
	}
	if got := a.get("/imports/b"); got.status != 404 {
		t.Errorf("another's import: got %+v", got)
	}
	_ = first.body.Close()
	if got := <-first.done; got.status != 200 {
		t.Errorf("got %+v", got)
	}
	check(t, "id of another", other.put("/imports/a?format=csv", "id,name\n"), refused(40907,
		"the id a is in use; use another one"))
	operator := importing{h, h.admins} // without the scope plants:create
	if got := operator.get("/imports"); strings.Count(got.body, `"running"`) != 1 {
		t.Errorf("list of the operator: got %+v", got)
	}
	if got := operator.get("/imports/b"); got.status != 200 {
		t.Errorf("import for the operator: got %+v", got)
	}
	got := operator.do(http.MethodPost, "/imports/b/cancel", "")
	if got.status != 200 || !strings.Contains(got.body, `"canceled"`) {
		t.Errorf("cancel by the operator: got %+v", got)
	}
	<-second.done
	_ = second.body.Close()
}

// A credential that imports again and again fills neither the audit log nor the list of imports: the log has its first
// import, and one entry a minute with the sums of the others.
func TestImportsAreCollected(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c, other := h.importing("flood", 0), h.importing("nursery", 0)
	other.put("/imports/own?name=own.csv", mixedFile)
	h.checkEntry("nursery", "conflicting=0 created=4 existing=0 file=own.csv invalid=1 result=complete")
	const imports = 50
	for i := range imports {
		target := fmt.Sprintf("/imports/n%d?name=%[1]d.csv&on_conflict=report", i)
		got := c.put(target, fmt.Sprintf("id,name\n%d,A\nx,\n", i+100))
		if got.status != 200 {
			t.Fatalf("got %+v", got)
		}
	}
	if got := other.get("/imports/own/rejects").body; got != "\uFEFFid,name,tag\r\nfive,=Ulmus,\r\n" {
		t.Errorf("the rejects of another credential: got %q", got)
	}
	h.audited()
	q := admin.AuditQuery{Limit: 100, Actor: "flood", Action: string(audit.PlantsImport)}
	page, err := h.service.Audit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(page.Entries); n < 2 || n > 10 { // two, or more if the minute ends several times
		t.Errorf("got %d entries, want two", n)
	}
	sums := map[string]int{}
	for _, e := range page.Entries {
		for _, d := range e.Details {
			n, err := strconv.Atoi(d.Value)
			if slices.Contains([]string{"count", "created", "invalid"}, d.Key) && err == nil {
				sums[d.Key] += n
			}
		}
	}
	if want := map[string]int{"count": imports - 1, "created": imports, "invalid": imports}; !maps.Equal(sums, want) {
		t.Errorf("got the sums %v, want %v", sums, want)
	}
	if v, err := h.service.VerifyAudit(t.Context(), audit.Link{}); err != nil || !v.Whole {
		t.Errorf("verification: got %+v, %v", v, err)
	}
}

// The end of the server ends the imports, which receive a response.
func TestImportAtShutdown(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c := h.importing("nursery", 0)
	s := c.startPut("/imports/a?format=csv")
	s.write(t, 1, 1000)
	c.await("a", func(i admin.Import) bool { return i.Created == 1000 })
	h.service.Retire()
	check(t, "running", <-s.done, refused(50302, "the server is shutting down; send the request again; "+
		"created 1000, existing 0, conflicting 0, invalid 0; stored rows count as existing when you import again"))
	_ = s.body.Close()
	check(t, "new", c.put("/imports/b?format=csv", "id,name\n"), refused(50302,
		"the server is shutting down; send the request again"))
}

// fullEngine is an engine whose disk is full after some batches.
type fullEngine struct {
	writepath.Engine

	batches int
	err     error
}

func (e *fullEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if e.batches--; e.batches < 0 {
		return nil, e.err
	}
	return e.Engine.Insert(ctx, batch)
}

// A store that fails in the middle ends the import with its reason and no internals.
func TestImportInFailingStore(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err  error
		code int
		text string
	}{
		"full": {
			fmt.Errorf("%w: /secret", store.ErrFull), 50305,
			"the disk of the store is full; send it again when the disk has free space",
		},
		"unknown": {store.ErrOutcomeUnknown, 50303, "the store failed, and the rows may be stored"},
		"full, unknown": {
			errors.Join(store.ErrFull, store.ErrOutcomeUnknown), 50303, "the store failed, and the rows may be stored",
		},
		"away":   {io.ErrUnexpectedEOF, 50304, "the store cannot write now; send it again"},
		"broken": {store.ErrBroken, 50304, "the store cannot write now; send it again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, setup{insert: func(e writepath.Engine) writepath.Engine { return &fullEngine{e, 1, row.err} }})
			c := h.importing("nursery", 0)
			s := c.startPut("/imports/a?format=csv")
			s.write(t, 1, 2000)
			_ = s.body.Close()
			check(t, name, <-s.done, refused(row.code, "the import stopped before the lines 1002 to 2001: "+row.text+
				"; created 1000, existing 0, conflicting 0, invalid 0; stored rows count as existing when you import again"))
			if broken := h.writePath.Ready() != nil; broken != (name == "broken") {
				t.Errorf("the store is ready: %v", h.writePath.Ready())
			}
		})
	}
}

// blockedEngine is an engine whose inserts wait until release is closed.
type blockedEngine struct {
	writepath.Engine

	release chan struct{}
}

func (e *blockedEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	<-e.release
	return e.Engine.Insert(context.WithoutCancel(ctx), batch) // the wait may be longer than the time of an insert
}

// An import that ends early, after its body has arrived, leaves the connection to further requests.
func TestImportEndsAfterItsBody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	h := start(t, setup{insert: func(e writepath.Engine) writepath.Engine { return &blockedEngine{e, release} }})
	c := h.importing("nursery", auth.ScopeRead)
	file := "id,name\n1,A\n1,B\n"
	for id := 2; id < 3000; id++ { // the last of three batches waits, and is whole with the last byte
		file += strconv.Itoa(id) + ",A\n"
	}
	u, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	ask := func(request, body string) {
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
			request, u.Host, c.token, len(body), body)
	}
	answer := func() response {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response{res.StatusCode, res.Header.Get("Content-Type"), string(body)}
	}
	ask("PUT /api/v1/imports/a?format=csv", file)
	c.await("a", func(i admin.Import) bool { return i.Bytes == int64(len(file)) })
	close(release)
	check(t, "import", answer(), refused(40908, "line 3 conflicts with a stored plant; the import stopped after the "+
		"batch of this row; to continue after such rows, report them (on_conflict=report); created 999, existing 0, "+
		"conflicting 1, invalid 0; stored rows count as existing when you import again"))
	for range 2 {
		ask("GET /api/v1/plants/1", "")
		if got := answer(); got.status != http.StatusOK {
			t.Errorf("the next request: got %+v", got)
		}
	}
}

// A row of many bytes, a file of many bytes after its decompression, and many rejects use bounded memory.
func TestImportOfHugeContent(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c := h.importing("nursery", 0)
	long := `{"id":1,"name":"` + strings.Repeat("x", 3<<20) + `"}` + "\n" + `{"id":2,"name":"B"}`
	if got := c.put("/imports/long?format=jsonl", long, "Content-Type: application/x-ndjson"); got.status != 200 {
		t.Fatalf("got %+v", got)
	}
	i := c.state("long")
	const reason = "the row is longer than 2097152 bytes; check for a missing quote or bracket"
	if i.Created != 1 || i.Invalid != 1 || i.Rejects[0].Reason != reason || i.Rejects[0].Text != "" {
		t.Errorf("got %+v", i)
	}
	// rows that do not compress
	const invalid, rowBytes = 600, 8000
	rows := make([]byte, invalid*rowBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(rows) // it never returns an error
	for i, c := range rows {
		switch {
		case i%rowBytes == rowBytes-1:
			rows[i] = '\n'
		case c == '\n' || c == '\r' || c == '"':
			rows[i] = 'x'
		}
	}
	if got := c.put("/imports/bad?format=csv", "id,name\n"+string(rows)); got.status != 200 {
		t.Fatalf("got %+v", got)
	}
	i = c.state("bad")
	if i.Invalid != invalid || len(i.Rejects) != 100 || i.RejectsKept < invalid/4 || i.RejectsKept == i.Invalid {
		t.Errorf("got %d invalid, %d shown, %d kept", i.Invalid, len(i.Rejects), i.RejectsKept)
	}
	res := c.send(http.MethodGet, "/imports/bad/rejects", "", "Authorization: Bearer "+c.token)
	defer res.Body.Close()
	lines := int64(0)
	for s := bufio.NewScanner(res.Body); s.Scan(); { // a row has less than 64 KiB
		lines++
	}
	if lines != i.RejectsKept+1 {
		t.Errorf("the download has %d lines, want %d", lines, i.RejectsKept+1)
	}
}

// A cancellation ends an import of a small file that is long without compression.
func TestImportOfZipBomb(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	c := h.importing("nursery", 0)
	bomb := zipped(t, strings.Repeat("\n", 4<<20), 1024) // 4 GiB of blank lines
	done := make(chan response, 1)
	go func() { done <- c.put("/imports/bomb?format=jsonl", bomb) }()
	c.await("bomb", func(i admin.Import) bool { return i.Bytes > 0 })
	if got := c.do(http.MethodPost, "/imports/bomb/cancel", ""); !strings.Contains(got.body, `"state":"canceled"`) {
		t.Errorf("got %+v", got)
	}
	if got := <-done; got.status != 409 {
		t.Errorf("got %+v", got)
	}
}

// A client chooses the columns of a file. A dry run stores nothing, and only a credential that reads plants sees the
// stored content in the reason of a conflict.
func TestImportOptions(t *testing.T) {
	t.Parallel()
	h := start(t, setup{plants: []store.Create{create(2, "Acer", plant.Tag{})}})
	const file = "plant_id;Scientific Name;family\n1;Ros\xe9;Rosaceae\n2;Quercus;Fagaceae\n3;;\n"
	creator, reader := h.importing("nursery", 0), h.importing("office", auth.ScopeRead)
	const path = "/imports/a?name=list.csv&on_conflict=report"
	const other = "/imports/b?name=list.csv&on_conflict=report"
	check(t, "no columns", creator.put(path, file), refused(40908, "line 1: the header has no columns id and name; "+
		"the columns are plant_id, Scientific Name, family; choose the columns, for example with the parameters "+
		"encoding=windows-1252&id_column=plant_id&name_column=Scientific+Name"))
	const chosen = "&encoding=windows-1252&id_column=plant_id&name_column=Scientific+Name&tag_column=family"
	want := importer.Counts{Created: 1, Conflicting: 1, Invalid: 1}
	imported := func(c importing, query string) (i admin.Import) {
		t.Helper()
		target := path
		if c.token == reader.token {
			target = other
		}
		c.decode(c.put(target+query, file), &i)
		return i
	}
	dry := imported(reader, chosen+"&dry_run=true")
	if dry.Counts != want || !dry.DryRun || len(dry.First) != 2 || dry.First[0].Name != "Rosé" ||
		dry.Found.String() != "windows-1252, semicolon-separated, "+
			"columns id (plant_id), name (Scientific Name), tag (family)" ||
		!strings.Contains(dry.Rejects[0].Reason, `the store has the name "Acer", this row "Quercus"`) {
		t.Errorf("dry run: got %+v", dry)
	}
	if _, err := h.engine.Get(t.Context(), 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a dry run stored a plant: %v", err)
	}
	whole := imported(creator, chosen)
	if whole.Counts != want || whole.Rejects[0].Reason != "id 2: a plant with this id is stored with a different name; "+
		"a plant with this id is stored with no tag" {
		t.Errorf("import: got %+v", whole)
	}
	made := imported(creator, "&encoding=windows-1252&id_from=Scientific+Name,family&name_column=Scientific+Name"+
		"&allow_empty_names=true&tag_column=")
	if want := (importer.Counts{Created: 2, Invalid: 1}); made.Counts != want {
		t.Errorf("made ids: got %+v", made)
	}
	if numbered := imported(creator, "&number_from=10&name_column=plant_id"); numbered.Created != 3 {
		t.Errorf("numbers: got %+v", numbered)
	}
	for query, message := range map[string]string{
		"dry_run=1":     `dry_run must be true or false; got "1"`,
		"number_from=x": `number_from must be a 64-bit integer; got "x"`,
		"encoding=x": `unknown encoding "x"; use macintosh, windows-1250, windows-1251, windows-1252, or none for UTF-8 ` +
			"and UTF-16",
		"id_column=a&id_from=b":  "ids come from one place: a column, the texts of columns, or a number; choose one of them",
		"id_column=":             "the name of a column is empty; only the column for tags may be empty",
		"number_from=1&id_from=": "the name of a column is empty; only the column for tags may be empty",
	} {
		check(t, query, creator.put(path+"&"+query, file), refused(40061, message))
	}
}
