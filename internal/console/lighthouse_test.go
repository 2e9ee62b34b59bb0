package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server/browsertest"
)

// lighthousePage is a page to measure.
type lighthousePage struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

// lighthouseResult is the line of tools/lighthouse/run.js for a page.
type lighthouseResult struct {
	URL    string
	Error  string
	Scores map[string]float64 // from 0 to 1
	Faults []string
}

// scoreMin is the lowest score of a page in each category.
const scoreMin = 0.95

// lighthouse measures pages with Lighthouse of npm.
func lighthouse(t *testing.T, dir string, pages []lighthousePage) (results []lighthouseResult) {
	t.Helper()
	profile, err := os.MkdirTemp("/tmp", "console")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile)
	input, err := json.Marshal(map[string]any{"browser": browsertest.Program(t), "dir": profile, "pages": pages})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "run.js")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	cmd.Env = append(os.Environ(), "HOME="+profile, "TMPDIR="+profile)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lighthouse: %v\n%s", err, faults.Bytes())
	}
	for line := range bytes.Lines(out) {
		var r lighthouseResult
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		results = append(results, r)
	}
	if len(results) != len(pages) {
		t.Fatalf("got %d results of %d pages", len(results), len(pages))
	}
	return results
}

// Each page scores at least 95 of 100 in Lighthouse for performance, accessibility and best practices. A page that is
// slow, inaccessible and has errors does not.
func TestLighthouse(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	browsertest.Program(t)
	dir := installNPM(t, "../../tools/lighthouse")
	if dir == "" {
		t.Skip("npm is not installed")
	}
	h := start(t, stored(1, "Rosa canina", plant.Tagged("shrub")), stored(2, "ورد جوري", plant.Tag{}))
	h.mint("web-shop", auth.ScopeCreate) // with the id 2
	h.console.Sample(10 * time.Second)
	cookie := h.signIn(h.admin).cookie
	bad := httptest.NewServer(http.HandlerFunc(badPage))
	defer bad.Close()
	pages := []lighthousePage{{URL: bad.URL}, {URL: "http://" + h.host + "/sign-in"}}
	for _, path := range consolePages {
		if path != "/plants/999999" { // Lighthouse measures no page with the status 404
			pages = append(pages, lighthousePage{"http://" + h.host + path, map[string]string{"Cookie": cookie}})
		}
	}
	results := lighthouse(t, dir, pages)
	for category, score := range results[0].Scores {
		if score >= scoreMin {
			t.Errorf("the page with faults: %s is %.2f", category, score)
		}
	}
	results, pages = results[1:], pages[1:]
	// Other work of the machine makes a page slower, but nothing makes it faster: the best of six counts.
	for range 5 {
		faulty := []lighthousePage{}
		for i, r := range results {
			t.Log(r)
			if r.fault(pages[i]) != "" {
				faulty = append(faulty, pages[i])
			}
		}
		if pages = faulty; len(pages) == 0 {
			return
		}
		results = lighthouse(t, dir, pages)
	}
	for i, r := range results {
		if fault := r.fault(pages[i]); fault != "" {
			t.Error(fault)
		}
	}
}

// String returns the scores.
func (r lighthouseResult) String() string {
	return fmt.Sprintf("%s: performance %.0f, accessibility %.0f, best practices %.0f %s", r.URL,
		100*r.Scores["performance"], 100*r.Scores["accessibility"], 100*r.Scores["best-practices"],
		strings.Join(r.Faults, "; "))
}

// fault returns the reason why the result is too low; empty if it is not.
func (r lighthouseResult) fault(page lighthousePage) string {
	if r.Error != "" || r.URL != page.URL {
		return fmt.Sprintf("%s: Lighthouse measured %s: %s", page.URL, r.URL, r.Error)
	}
	for _, category := range []string{"performance", "accessibility", "best-practices"} {
		if r.Scores[category] < scoreMin {
			return r.String()
		}
	}
	return ""
}

// badPage is a page with faults of each category.
func badPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, `<html><body><script>for (const end = Date.now() + 3000; Date.now() < end;);</script>
<p style="color:#ccc">low contrast</p><img src="/none.png"><input><a href="/x"></a>
<script>console.error("fault"); setTimeout(() => document.body.prepend(Object.assign(document.createElement("h1"),
{textContent: "late", style: "height: 600px"})), 500); undefined.fault</script></body></html>`)
}
