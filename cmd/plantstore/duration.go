package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// duration is a length of time in a flag or a setting. It is never negative. It is read as time.ParseDuration reads it,
// with days before the rest: 90d, 1d12h, 30m. What String returns, Set reads.
type duration time.Duration

const (
	day         = 24 * time.Hour
	durationMax = 36500 * day // far below what a time.Duration can hold
)

func (d *duration) Type() string   { return "duration" }
func (d *duration) String() string { return formatDuration(time.Duration(*d)) }

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	parsed, err := parseDuration(text)
	if err == nil {
		*d = duration(parsed)
	}
	return err
}

func parseDuration(text string) (time.Duration, error) {
	fault := fmt.Errorf("%q is not a duration: give one like 90d, 12h or 30m", text)
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
	if rest < 0 || days > uint64(durationMax/day) || rest > durationMax-time.Duration(days)*day {
		return 0, fmt.Errorf("%s is out of range: from 0 to %s", text, formatDuration(durationMax))
	}
	return time.Duration(days)*day + rest, nil
}

// formatDuration writes a duration in the shortest form that parseDuration reads: 1d, not 24h0m0s.
func formatDuration(d time.Duration) string {
	days, rest := d/day, d%day
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
