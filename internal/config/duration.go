package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Day is the length of a day.
const Day = 24 * time.Hour

const durationMax = 36500 * Day // 100 years; the maximum of time.Duration is 292

// Duration is a length of time in the form of ParseDuration.
func Duration(to *time.Duration) pflag.Value {
	return &value[time.Duration]{to: to, parse: ParseDuration, format: FormatDuration}
}

// Timeout is a duration longer than 0.
func Timeout(to *time.Duration) pflag.Value {
	return &value[time.Duration]{to: to, format: FormatDuration, parse: func(text string) (time.Duration, error) {
		d, err := ParseDuration(text)
		if err == nil && d == 0 {
			err = fmt.Errorf("%s is out of range; use a duration longer than 0, such as 10s", text)
		}
		return d, err
	}}
}

// ParseDuration parses a duration of 0 to 100 years: the form of time.ParseDuration after optional days, such as 90d,
// 1d12h or 30m.
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

// FormatDuration returns a duration in the shortest form that ParseDuration accepts: 1d, not 24h0m0s. The help of pflag
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
