package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// chart is a chart of horizontal bars: medians with whiskers from minimum to
// maximum.
type chart struct {
	title  string // with the unit
	format func(float64) string
	groups []barGroup
}

type barGroup struct {
	title string
	bars  []bar
}

type bar struct {
	label  string
	value  spread
	accent bool // Plant Store
}

// Sizes in pixels.
const (
	chartWidth = 800
	labelWidth = 250
	valueWidth = 215
	barHeight  = 18
	barStep    = 26
	headHeight = 30
	barsWidth  = chartWidth - labelWidth - valueWidth
)

// chartStyle has colours for a light and a dark page.
const chartStyle = `text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:15px}` +
	`.group{font-weight:600}` +
	`.bar{fill:#8c959f}.accent{fill:#1a7f37}.whisker{stroke:#1f2328;stroke-width:1.5;fill:none}` +
	`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}.accent{fill:#3fb950}.whisker{stroke:#e6edf3}}`

// svg draws the chart without the bars that have no value. A chart without any
// value is "".
func (c chart) svg() string {
	largest := 0.0
	for _, g := range c.groups {
		for _, b := range g.bars {
			largest = max(largest, b.value.max)
		}
	}
	if largest == 0 {
		return ""
	}
	var body strings.Builder
	y := headHeight
	text(&body, "title", 0, y-10, c.title)
	for _, g := range c.groups {
		bars := measured(g.bars)
		if len(bars) == 0 {
			continue
		}
		y += headHeight
		text(&body, "group", 0, y-10, g.title)
		for _, b := range bars {
			b.draw(&body, y, barsWidth/largest, c.format)
			y += barStep
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`role="img" aria-label="%s"><style>%s</style>`+"\n%s</svg>\n",
		chartWidth, y+10, chartWidth, y+10, escaped(c.title), chartStyle, body.String())
}

func measured(bars []bar) []bar {
	var kept []bar
	for _, b := range bars {
		if b.value.n > 0 {
			kept = append(kept, b)
		}
	}
	return kept
}

func (b bar) draw(to *strings.Builder, y int, scale float64, format func(float64) string) {
	class := "bar"
	if b.accent {
		class = "bar accent"
	}
	middle, processors := float64(y)+barHeight/2, 4.0
	from, end := labelWidth+b.value.min*scale, labelWidth+b.value.max*scale
	text(to, "label", 12, y+14, b.label)
	fmt.Fprintf(to, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n", class, labelWidth, y,
		b.value.median*scale, barHeight)
	if b.value.n > 1 {
		fmt.Fprintf(to, `<path class="whisker" d="M%.1f %.1fH%.1fM%.1f %.1fv%.1fM%.1f %.1fv%.1f"/>`+"\n",
			from, middle, end, from, middle-processors, 2*processors, end, middle-processors, 2*processors)
	}
	text(to, "value", int(end)+8, y+14, b.value.text(format))
}

func text(to *strings.Builder, class string, x, y int, s string) {
	fmt.Fprintf(to, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, escaped(s))
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder returns no errors
	return b.String()
}
