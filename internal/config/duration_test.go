package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		in   string
		want time.Duration
		text string // as formatted
		err  string
	}{
		{in: "0", want: 0, text: "0"},
		{in: "0d", want: 0, text: "0"},
		{in: "10s", want: 10 * time.Second, text: "10s"},
		{in: "90m", want: 90 * time.Minute, text: "1h30m"},
		{in: "1.5h", want: 90 * time.Minute, text: "1h30m"},
		{in: "2m0s", want: 2 * time.Minute, text: "2m"},
		{in: "10m", want: 10 * time.Minute, text: "10m"},
		{in: "20h", want: 20 * time.Hour, text: "20h"},
		{in: "20h0m5s", want: 20*time.Hour + 5*time.Second, text: "20h0m5s"},
		{in: "24h", want: Day, text: "1d"},
		{in: "7d", want: 7 * Day, text: "7d"},
		{in: "1d12h", want: 36 * time.Hour, text: "1d12h"},
		{in: "1d90s", want: Day + 90*time.Second, text: "1d1m30s"},
		{in: "250ms", want: 250 * time.Millisecond, text: "250ms"},
		{in: "36500d", want: durationMax, text: "36500d"},
		{in: "", err: `"" is not a duration; use the form 90d, 12h or 30m`},
		{in: "d", err: `"d" is not a duration; use the form 90d, 12h or 30m`},
		{in: "soon", err: `"soon" is not a duration; use the form 90d, 12h or 30m`},
		{in: "10", err: `"10" is not a duration; use the form 90d, 12h or 30m`},
		{in: "1d12", err: `"1d12" is not a duration; use the form 90d, 12h or 30m`},
		{in: "1d+12h", err: `"1d+12h" is not a duration; use the form 90d, 12h or 30m`},
		{in: "12h1d", err: `"12h1d" is not a duration; use the form 90d, 12h or 30m`},
		{in: "1.5d", err: `"1.5d" is not a duration; use the form 90d, 12h or 30m`},
		{in: "-1d", err: `"-1d" is not a duration; use the form 90d, 12h or 30m`},
		{in: "-1h", err: "-1h is out of range; use 0 to 36500d"},
		{in: "1d-1h", err: "1d-1h is out of range; use 0 to 36500d"},
		{in: "36500d1ns", err: "36500d1ns is out of range; use 0 to 36500d"},
		{in: "876001h", err: "876001h is out of range; use 0 to 36500d"},
		{in: "99999999999999999999d", err: "99999999999999999999d is out of range; use 0 to 36500d"},
	} {
		d, err := ParseDuration(row.in)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if text := FormatDuration(d); d != row.want || message != row.err || message == "" && text != row.text {
			t.Errorf("%q: got %s (%d), %q; want %s (%d), %q", row.in, text, d, message, row.text, row.want, row.err)
		}
	}
}

// parseDuration accepts each result of formatDuration.
func TestFormatDuration(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		units := []time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour, Day}
		unit := rapid.SampledFrom(units).Draw(t, "unit")
		want := rapid.Int64Range(0, int64(durationMax/unit)).Draw(t, "units") * int64(unit)
		text := FormatDuration(time.Duration(want))
		if got, err := ParseDuration(text); err != nil || int64(got) != want {
			t.Errorf("%d is formatted as %q and parsed as %d, %v", want, text, got, err)
		}
	})
}
