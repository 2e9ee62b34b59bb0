package console_test

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server/browsertest"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
	"plantstore/internal/webhook"
)

var updateScreenshots = flag.Bool("update", false, "write the screenshots in docs/images")

// nurseryPlants are names in several scripts and of several lengths, with their tags.
var nurseryPlants = [][2]string{
	{"Rosa canina L.", "shrub"},
	{"Quercus robur L.", "tree"},
	{"Lavandula angustifolia Mill.", "herb"},
	{"ورد جوري", "shrub"},
	{"מרווה רפואית", "herb"},
	{"× Cuprocyparis leylandii (A.B.Jacks. & Dallim.) Farjon 'Castlewellan Gold'", "conifer"},
	{"Шалфей лекарственный", "herb"},
	{"Ελιά Καλαμών", "tree"},
	{"Acer palmatum 'Sango-kaku'", "tree"},
	{"Hydrangea macrophylla 'Nikko Blue'", "shrub"},
	{"Monstera deliciosa", ""},
	{"Salvia rosmarinus 'Miss Jessopp’s Upright'", "herb"},
	{"Ginkgo biloba", "tree"},
	{"Echinacea purpurea", "perennial"},
	{"Đỗ quyên", "shrub"},
	{"Íris-dos-pântanos", "perennial"},
}

// startNursery starts a server with the store and the history of a small nursery.
func startNursery(t *testing.T) *harness {
	t.Helper()
	const plants = 42_000
	now := time.Now().UTC()
	batch := make([]store.Create, plants)
	for i := range batch {
		named := nurseryPlants[i%len(nurseryPlants)]
		name, tag := named[0], plant.Tagged(named[1])
		if i >= len(nurseryPlants) {
			name = fmt.Sprintf("%s, tray %d", name, i)
		}
		if named[1] == "" {
			tag = plant.Tag{}
		}
		batch[i] = stored(int64(1000+i), name, tag)
		batch[i].At = now.Add(time.Duration(i-plants) * 2 * time.Second)
		if i >= plants-40 {
			batch[i].By = 2 // web-shop
		}
	}
	file := filepath.Join(t.TempDir(), "plantstore.db")
	open := func(metrics prometheus.Registerer) (storetest.Engine, error) {
		return sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
	}
	engine, err := open(prometheus.NewRegistry())
	if err == nil {
		_, err = engine.Insert(t.Context(), batch)
	}
	if err = errors.Join(err, engine.Close()); err != nil { // also moves the plants from the WAL to the file
		t.Fatal(err)
	}
	h := startOn(t, file, open)
	h.mint("web-shop", auth.ScopeCreate)
	for name, scopes := range map[string]auth.Scopes{
		"greenhouse-scanner": auth.ScopeCreate | auth.ScopeRead, "prometheus": auth.ScopeMetrics,
	} {
		h.mint(name, scopes)
	}
	h.create(auth.Token{
		Name: "season-2026", Hash: auth.HashOf(auth.Mint()), Scopes: auth.ScopeRead, CreatedAt: now,
		ExpiresAt: now.Add(3 * 24 * time.Hour),
	})
	receivers := []string{"https://shop.example/events", "https://labels.example/plants"}
	h.deadLetters(receivers, 900_000, "status 503", "timeout")
	h.deliveries = map[int64]webhook.Status{
		1: {Address: receivers[0], DeliveredAt: now.Add(-20 * time.Second)},
		2: {
			Address: receivers[1], DeliveredAt: now.Add(-2 * time.Hour), FailedAt: now, Reason: "status 503", Failures: 4,
			PausedUntil: now.Add(time.Minute), Dead: 2,
		},
	}
	c := h.signIn(h.admin)
	for _, operation := range []string{"start", "verify", "drill"} {
		form := url.Values{}
		if list, err := h.backups.List(t.Context()); err == nil && len(list) > 0 {
			form.Set("name", list[0].Name)
		}
		c.post("/backups/"+operation, form)
		h.awaitJobs()
	}
	h.console.AddDay()
	return h
}

// TestScreenshots writes the images in docs/images: each page light, dark and narrow. Look at each before you commit
// it.
func TestScreenshots(t *testing.T) {
	if !*updateScreenshots {
		t.Skip("it writes images only with -update")
	}
	h := startNursery(t)
	h.backups.Start()
	failing := h.deliveries // on the page of webhooks; the overview shows a day without failures
	h.deliveries = map[int64]webhook.Status{1: failing[1]}
	b := startBrowser(t, h)
	b.open("/sign-in")
	b.capture("sign-in")
	b.signIn()
	for _, page := range []struct {
		name, path string
		do         func()
	}{
		{"overview", "/", func() { b.Await(`document.querySelector("#tile-plants .value").textContent !== ""`) }},
		{"plants", "/plants", nil},
		{"search", "/plants", func() {
			b.Do(chromedp.SendKeys(chromedp.CSS("#name"), "sango"))
			b.Await(`/matches|found;/.test(document.querySelector("[data-progress]").textContent)`)
			b.Await(`document.querySelector("[data-stop]").hidden`)
		}},
		{"plant", "/plants/1005", nil},
		{"new-plant", "/plants/new", nil},
		{"import-columns", "/import", func() {
			b.choose(plantsFile(t, "autumn-2026.csv", [][]string{
				{"60001", "Sorbus aucuparia", "tree"},
				{"60002", "Крокус весенний", "bulb"},
				{"60003", "Heuchera 'Palace Purple'", ""},
				{"1000", "Rosa gallica", "shrub"},
				{"x-17", "Fuchsia magellanica", "shrub"},
			}))
		}},
		{"import-check", "", b.checkColumns},
		{"import-result", "", func() {
			b.startImport()
			b.Await(`document.querySelector(".head .state") !== null`)
		}},
		{"import", "/import", nil},
		{"credentials", "/credentials", nil},
		{"erase", "/credentials/2/erase?since=2026-01-01T00:00:00", nil},
		{"backups", "/backups", func() { // the directory is one of the test
			b.Await(`[...document.querySelectorAll(".lead bdi")].every(e => e.textContent = "/mnt/backup/plantstore")`)
		}},
		{"webhooks", "/webhooks", func() {
			h.deliveries = failing
			b.open("/webhooks")
		}},
		{"audit", "/audit", nil},
		{"settings", "/settings", nil},
		{"api", "/reference", nil},
		{"admin-api", "/reference/admin", nil},
		{"error", "/plants/7", nil},
	} {
		if page.path != "" { // the page before leads to this one
			b.open(page.path)
		}
		if page.do != nil {
			page.do()
		}
		b.capture(page.name)
	}
}

// capture writes the images of the open page.
func (b *browser) capture(name string) {
	b.t.Helper()
	for _, form := range []struct {
		name, scheme  string
		width, height int64
	}{{"light", "light", 1280, 800}, {"dark", "dark", 1280, 800}, {"narrow", "light", 360, 740}} {
		b.Do(chromedp.EmulateViewport(form.width, form.height))
		browsertest.Call(b.Page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: form.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			},
		})
		b.Await(`(scrollTo(0, 0), document.fonts.status === "loaded")`) // scrollTo may return a promise
		content, err := chromedp.Run(b.Ctx, chromedp.CaptureScreenshot())
		if err == nil {
			content, err = reduceColours(content)
		}
		if err == nil {
			file := filepath.Join("../../docs/images", "console-"+name+"-"+form.name+".png")
			err = os.WriteFile(file, content, 0o644)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// reduceColours returns an image with at most 256 of its colours: the most frequent ones, such as those of a gradient,
// then those that look like none before. Other pixels get the nearest of them. The file of a page is about a third as
// large.
func reduceColours(content []byte) ([]byte, error) {
	const coloursMax, frequent = 256, 128
	from, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	counts, size := map[color.Color]int{}, from.Bounds()
	for y := range size.Dy() {
		for x := range size.Dx() {
			counts[from.At(x, y)]++
		}
	}
	var colours color.Palette
	for c := range counts {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var palette color.Palette
	for _, c := range colours {
		if len(palette) < frequent || len(palette) < coloursMax && !alike(c, palette.Convert(c)) {
			palette = append(palette, c)
		}
	}
	to, nearest := image.NewPaletted(size, palette), map[color.Color]uint8{}
	for y := range size.Dy() {
		for x := range size.Dx() {
			c := from.At(x, y)
			if _, ok := nearest[c]; !ok {
				nearest[c] = uint8(palette.Index(c))
			}
			to.SetColorIndex(x, y, nearest[c])
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, to)
	return out.Bytes(), err
}

// alike reports whether two colours differ by at most 12 of 255.
func alike(a, b color.Color) bool {
	const most = 12 << 8
	square := func(x, y uint32) int64 { return (int64(x) - int64(y)) * (int64(x) - int64(y)) }
	r, g, blue, _ := a.RGBA()
	r2, g2, blue2, _ := b.RGBA()
	return square(r, r2)+square(g, g2)+square(blue, blue2) <= most*most
}
