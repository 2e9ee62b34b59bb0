package console

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/apidoc"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// policy is the Content-Security-Policy of the pages. It allows the style sheet, the scripts and the images of this
// program, no inline code, and no conversion of text to HTML by scripts (Trusted Types).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// view is the data of a page.
type view struct {
	Title   string
	Content any
	Notice  string       // the result of a change; empty: one of notices, or none
	Fault   *plant.Error // why a change was refused; nil: none was
	Refresh bool         // without the script, the browser loads the page again every few seconds
	Address string       // where the response to a form belongs; empty: the address of the request

	// render sets the fields below.
	Nav     []page
	Current string    // path of the page in Nav
	Who     string    // name of the credential; empty: not signed in
	Until   time.Time // when the session ends; zero: with its token, or after 12 hours
	Version string
}

func (v view) status() int {
	if v.Fault != nil {
		return v.Fault.Code.Status()
	}
	return http.StatusOK
}

// notices are the results of changes, by the parameter done of the page that shows them.
var notices = map[string]string{
	"created":   "The plant is stored.",
	"replayed":  "The store had this plant already, with the same content. Nothing changed.",
	"corrected": "The plant is corrected. Backups have its old content until they are removed.",
	"unchanged": "The plant has this content already. Nothing changed.",
	"erased":    "The plant is erased. Backups have it until they are removed.",
	"revoked":   "The credential is revoked. Every server refuses it within a second.",
	"started":   "The job has started.",
	"deleted":   "The backup is deleted.",
}

// page is a page of the navigation, with the scopes that allow it.
type page struct {
	Path, Name, Icon string
	scopes           auth.Scopes
}

var pages = []page{
	{"/", "Overview", "overview", auth.ScopeAdmin},
	{"/plants", "Plants", "plants", auth.ScopeRead},
	{"/import", "Import", "import", auth.ScopeCreate | auth.ScopeAdmin},
	{"/credentials", "Credentials", "key", auth.ScopeAdmin},
	{"/backups", "Backups", "backups", auth.ScopeAdmin},
	{"/webhooks", "Webhooks", "webhooks", auth.ScopeAdmin},
	{"/audit", "Audit log", "audit", auth.ScopeAdmin},
	{"/settings", "Settings", "settings", auth.ScopeAdmin},
	{"/reference", "API", "api", auth.ScopeRead},
}

// nameOf returns what a link on the overview to a part of a page of the navigation shows.
func nameOf(address string) string {
	path := address[:strings.IndexAny(address+"#", "#?")]
	if path == "/" {
		return "Charts"
	}
	return pages[slices.IndexFunc(pages, func(p page) bool { return p.Path == path })].Name
}

// functions of the templates, except those that need the clock of a Console.
var functions = template.FuncMap{
	"when": func(t time.Time) template.HTML {
		if t.IsZero() {
			return "–"
		}
		const layout = `<time datetime="` + time.RFC3339Nano + `"><span>2006-01-02</span> <span>15:04:05 UTC</span></time>`
		return template.HTML(t.UTC().Format(layout))
	},
	"minute": func(t time.Time) template.HTML {
		return timeElement(t, "data-minute", t.UTC().Format("<span>2006-01-02</span> <span>15:04 UTC</span>"))
	},
	"breaks": apidoc.Breaks,
	"icon":   icon,
	"bytes":  func(n int64) string { return admin.FormatBytes(float64(n)) },
	"count":  func(n int64) string { return formatCount(float64(n)) },
	"plants": formatPlants,
	"join":   strings.Join,
	"tag": func(t plant.Tag) (texts []string) { // one text or none
		if text, ok := t.Get(); ok {
			texts = append(texts, text)
		}
		return texts
	},

	"dialog": newDialog, "jobResult": jobResult,
	"credentialsOf": func(c credentials, list []admin.Credential, caption string) credentialTable {
		return credentialTable{c, list, caption}
	},
	"counted":  func(n int64, thing string) string { return counted(int(n), thing) },
	"person":   auth.PrincipalName,
	"duration": formatEvery,
	"nameOf":   nameOf,
	"fold":     fold,
	"sentence": sentence,
	"clock":    func(t time.Time) template.HTML { return timeElement(t, "data-clock", t.UTC().Format("15:04 UTC")) },

	"importTone": importTone, "importResult": importResult,
	"shorten": func(charactersMax int, text string) string {
		text = strings.ToValidUTF8(text, "\uFFFD")
		if runes := []rune(text); len(runes) > charactersMax {
			return string(runes[:charactersMax]) + "…"
		}
		return text
	},
	"rejectsShown": func() int64 { return admin.RejectsShown },
}

// ago returns a time as a person compares it with now. The title of the element is the exact time.
func (c *Console) ago(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return timeElement(t, "data-ago", formatAgo(c.now().Sub(t)))
}

// timeElement returns the element of a time. The script writes its text again, in the form that an attribute names.
func timeElement(t time.Time, attribute, text string) template.HTML {
	const layout = ` datetime="` + time.RFC3339Nano + `" title="2006-01-02 15:04:05 UTC">`
	return template.HTML("<time " + attribute + t.UTC().Format(layout) + text + "</time>")
}

// dialog is a question before a change: its name, its effect, and a way back.
type dialog struct {
	ID, Action         string // the form's
	Verb, Name, Effect string
	Fields             [][2]string // the form's hidden fields
}

// newDialog returns the dialog of a form with fields, each a name and a value.
func newDialog(id, action, verb, name, effect string, fields ...any) dialog {
	d := dialog{ID: id, Action: action, Verb: verb, Name: name, Effect: effect}
	for pair := range slices.Chunk(fields, 2) {
		d.Fields = append(d.Fields, [2]string{fmt.Sprint(pair[0]), fmt.Sprint(pair[1])})
	}
	return d
}

// formatAgo returns an age, such as "3 days ago"; a negative one is a time in the future, such as "in 3 days".
func formatAgo(age time.Duration) string {
	const now = 10 * time.Second
	switch text := formatAge(age.Abs()); {
	case age.Abs() < now:
		return "just now"
	case age < 0:
		return "in " + text
	default:
		return text + " ago"
	}
}

func (c *Console) functions() template.FuncMap {
	all := maps.Clone(functions)
	all["ago"] = c.ago
	return all
}

// parseTemplates returns the pages by name, each with the layout. The templates are part of the program, so one that is
// not valid is a panic.
func parseTemplates(functions template.FuncMap) map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html"))
	files, _ := fs.Glob(templateFiles, "templates/*.html") // the pattern is valid
	parsed := map[string]*template.Template{}
	for _, file := range files {
		page := template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, file))
		parsed[strings.TrimSuffix(path.Base(file), ".html")] = page
	}
	return parsed
}

// staticRoutes returns the routes of the files of the pages.
func staticRoutes() ([]server.Route, error) {
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, fmt.Errorf("list the files of the console: %w", err)
	}
	files := map[string][]byte{"apidoc.css": apidoc.Style, "leaf.svg": apidoc.Icon}
	for _, e := range entries {
		if files[e.Name()], err = staticFiles.ReadFile(path.Join("static", e.Name())); err != nil {
			return nil, fmt.Errorf("read a file of the console: %w", err)
		}
	}
	types := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	var routes []server.Route
	for name, content := range files {
		routes = append(routes, server.Route{
			Method: "GET", Path: "/static/" + name, Open: true, Untimed: true, Background: true,
			Handle: server.StaticFile(types[path.Ext(name)], content),
		})
	}
	return routes, nil
}

// render responds with a page.
func (c *Console) render(call *server.Call, status int, name string, v view) error {
	section, _, _ := strings.Cut(strings.TrimPrefix(call.URL.Path, "/"), "/")
	v.Current, v.Version = "/"+section, c.Version
	v.Notice = cmp.Or(v.Notice, notices[call.URL.Query().Get("done")])
	if principal, err := c.session(call.Request); err == nil {
		v.Who = principal.Name
		if found, ok := c.sessions.find(c.cookieOf(call.Request), c.now()); ok && (found.minted || found.claims != nil) {
			v.Until = found.began.Add(sessionTimeMax)
		}
		for _, p := range pages {
			if principal.Scopes&p.scopes != 0 {
				v.Nav = append(v.Nav, p)
			}
		}
	}
	var body bytes.Buffer
	if err := c.templates[name].ExecuteTemplate(&body, "layout.html", v); err != nil {
		return fmt.Errorf("write the page %s: %w", name, err)
	}
	h := call.Header()
	secure(h)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	call.WriteHeader(status)
	_, _ = call.Write(body.Bytes()) // fails if the client has disconnected
	return nil
}

// secure sets the headers of a page.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// refuse writes the response to an error: the sign-in page without a valid session, otherwise the message, as JSON for
// a script and as a page for people.
func (c *Console) refuse(call *server.Call, e *plant.Error) {
	if e.Code.Status() == http.StatusUnauthorized {
		q := url.Values{}
		if call.Method == http.MethodGet && call.URL.Path != "/" && call.URL.Path != "/live" {
			q.Set("next", call.URL.RequestURI())
		}
		if c.cookieOf(call.Request) != "" {
			c.sessions.remove(c.cookieOf(call.Request))
			c.setCookie(call, "")
			q.Set("ended", "1")
		}
		redirect(call, (&url.URL{Path: signInPath, RawQuery: q.Encode()}).String())
		return
	}
	if isScript(call) {
		call.WriteJSON(e.Code.Status(), server.AppendError(nil, e))
		return
	}
	content := fault{e, remedyOf(e), call.Header().Get("X-Request-Id")}
	v := view{Title: http.StatusText(e.Code.Status()), Content: content}
	if err := c.render(call, e.Code.Status(), "error", v); err != nil {
		c.Log.Error("console: could not write an error page", "error", err)
		http.Error(call, e.Message, e.Code.Status())
	}
}

func isScript(call *server.Call) bool { return call.Request.Header.Get("Accept") == "application/json" }

// fault is the content of the error page.
type fault struct {
	*plant.Error

	Remedy  string // empty: the message has it
	Request string // id of the request
}

// remedyOf returns what a person can do after an error; empty if its message says so.
func remedyOf(e *plant.Error) string {
	switch status := e.Code.Status(); {
	case e.Code == plant.CodeScopeMissing:
		return "Sign out, then sign in with a credential that has the scope."
	case status == http.StatusNotFound:
		return "Check the id or the address."
	case status == http.StatusTooManyRequests:
		return "Wait a minute, then try again."
	case status == http.StatusInternalServerError:
		return "Try again. If it fails again, look for the request id in the server's log."
	case status == http.StatusServiceUnavailable:
		return "Try again in a moment. The overview shows the state of the store."
	}
	return ""
}

// formatEvery returns an interval, such as "day" or "6 hours".
func formatEvery(d time.Duration) string {
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"day", day}, {"hour", time.Hour}, {"minute", time.Minute}} {
		switch {
		case d == u.d:
			return u.name
		case d%u.d == 0:
			return counted(int(d/u.d), u.name)
		}
	}
	return d.String()
}

// formatCount returns a number with a narrow space between groups of three digits.
func formatCount(n float64) string {
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}
