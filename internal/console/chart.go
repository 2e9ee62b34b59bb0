package console

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The size of a chart in units of its viewBox, and the number of its points.
const (
	chartWidth  = 600
	chartHeight = 120
	pointsMax   = 180
)

// chart is a diagram over time, as SVG. The page shows it without JavaScript; the script replaces the paths and the
// texts.
type chart struct {
	ID     string `json:"id"`
	Title  string `json:"-"`
	Lines  []line `json:"lines"`
	Top    string `json:"top"`    // the value of the upper edge
	Middle string `json:"middle"` // half of it
	From   string `json:"from"`   // RFC 3339
	To     string `json:"to"`
	Points []tip  `json:"points"` // for the tooltip
}

type line struct {
	Name string `json:"name"`
	Now  string `json:"now"`  // the newest value of the last minute
	Path string `json:"path"` // the line
	Area string `json:"area"` // below the line; the page shows only the first one

	values []float64 // by part of the time; NaN: unknown
}

// tip is the text of the lines at a time.
type tip struct {
	X    float64  `json:"x"` // in the viewBox
	At   string   `json:"at"`
	Text []string `json:"text"`
}

// series is the source of a line.
type series struct {
	name  string
	value func(sample) float64
}

// newChart returns the chart of the samples of a span. A point is the largest value of its part of the time, because a
// mean would hide a short peak.
func newChart(
	id, title string, samples []sample, to time.Time, span time.Duration, format func(float64) string, list ...series,
) chart {
	from := to.Add(-span)
	n := min(pointsMax, int(span/sampleEvery))
	c := chart{ID: id, Title: title, From: from.UTC().Format(time.RFC3339), To: to.UTC().Format(time.RFC3339)}
	top := 0.0
	for _, l := range list {
		drawn := line{Name: l.name, Now: "–", values: slices.Repeat([]float64{math.NaN()}, n)}
		for _, s := range samples {
			v, k := l.value(s), min(int(float64(n)*float64(s.at.Sub(from))/float64(span)), n-1)
			if math.IsNaN(v) {
				continue
			}
			if !(drawn.values[k] >= v) {
				drawn.values[k], top = v, max(top, v)
			}
			if to.Sub(s.at) < time.Minute {
				drawn.Now = format(v)
			}
		}
		c.Lines = append(c.Lines, drawn)
	}
	top = niceTop(top)
	c.Top, c.Middle = format(top), format(top/2)
	for i, l := range c.Lines {
		c.Lines[i].Path, c.Lines[i].Area = draw(l.values, top)
	}
	for k := range n {
		t := tip{X: pointX(k, n), At: from.Add(span * time.Duration(k+1) / time.Duration(n)).UTC().Format(time.RFC3339)}
		known := false
		for _, l := range c.Lines {
			known = known || !math.IsNaN(l.values[k])
			t.Text = append(t.Text, l.Name+" "+orDash(l.values[k], format))
		}
		if known {
			c.Points = append(c.Points, t)
		}
	}
	if len(c.Points) == 0 {
		c.Top, c.Middle = "", ""
	}
	return c
}

func pointX(k, n int) float64 {
	return math.Round(float64(chartWidth)*(float64(k)+0.5)/float64(n)*10) / 10
}

// draw returns the path of values and of the area below it, with gaps where the values are NaN. A value between two
// gaps is a line as long as its part of the time, because the path of a point is invisible.
func draw(values []float64, top float64) (path, area string) {
	var line, fill strings.Builder
	half := chartWidth / float64(len(values)) / 2
	var xs, ys []float64 // points since the last gap
	end := func() {
		if len(xs) == 1 {
			xs, ys = []float64{xs[0] - half, xs[0] + half}, []float64{ys[0], ys[0]}
		}
		var points []string
		for i := range xs {
			points = append(points, number(xs[i])+" "+number(ys[i]))
		}
		if run := strings.Join(points, "L"); run != "" {
			line.WriteString("M" + run)
			fmt.Fprintf(&fill, "M%s %dL%sV%dZ", number(xs[0]), chartHeight, run, chartHeight)
		}
		xs, ys = nil, nil
	}
	for k, v := range values {
		switch {
		case !math.IsNaN(v):
			xs, ys = append(xs, pointX(k, len(values))), append(ys, chartHeight*(1-v/top))
		case k > 0 && math.IsNaN(values[k-1]): // a sample may fall into the next part, so one empty part is no gap
			end()
		}
	}
	end()
	return line.String(), fill.String()
}

// number returns a number with at most one decimal.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// niceTop returns the next 1, 2 or 5 times a power of ten.
func niceTop(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if v <= m*power {
			return m * power
		}
	}
	return v
}

// orDash returns a number as text; a dash if it is NaN.
func orDash(v float64, format func(float64) string) string {
	if math.IsNaN(v) {
		return "–"
	}
	return format(v)
}

// formatRate returns a number of events.
func formatRate(v float64) string {
	if v != 0 && v < 10 {
		return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
	}
	return formatCount(v)
}

// formatSeconds returns a duration in milliseconds or seconds.
func formatSeconds(v float64) string {
	if v >= 1 {
		return number(v) + " s"
	}
	return number(v*1000) + " ms"
}
