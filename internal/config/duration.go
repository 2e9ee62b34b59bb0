package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a flag or a setting that is a length of time. It is never negative. Its text is that
// of time.ParseDuration after optional days: 90d, 1d12h, 30m. Set accepts each result of String.
type Duration time.Duration

// Day is the length of a day.
const Day = 24 * time.Hour

const durationMax = 36500 * Day // 100 years; the maximum of time.Duration is 292

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }

func (d *Duration) String() string { return FormatDuration(time.Duration(*d)) }

// Set implements pflag.Value.
func (d *Duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	if err == nil {
		*d = Duration(parsed)
	}
	return err
}

// ParseDuration parses a duration of 0 to 100 years: 90d, 1d12h, 30m.
func ParseDuration(text string) (time.Duration, error) {
	fault := fmt.Errorf("%q is not a duration; use the form 90d, 12h or 30m", text)
	number, tail, hasDays := strings.Cut(text, "d")
	if !hasDays {
		number, tail = "0", text
	}
	days, err := strconv.ParseUint(number, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fault
	}
	var rest time.Duration
	if tail != "" || !hasDays {
		if rest, err = time.ParseDuration(tail); err != nil || hasDays && strings.HasPrefix(tail, "+") {
			return 0, fault
		}
	}
	if rest < 0 || days > uint64(durationMax/Day) || rest > durationMax-time.Duration(days)*Day {
		return 0, fmt.Errorf("%s is out of range; use 0 to %s", text, FormatDuration(durationMax))
	}
	return time.Duration(days)*Day + rest, nil
}

// FormatDuration returns a duration in the shortest form that parseDuration accepts: 1d, not 24h0m0s. The help of pflag
// omits the default 0, but not 0s.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	days, rest := d/Day, d%Day
	text := rest.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	switch {
	case days == 0:
		return text
	case rest == 0:
		return fmt.Sprintf("%dd", days)
	default:
		return fmt.Sprintf("%dd%s", days, text)
	}
}
