package postgres

import (
	"slices"
	"strings"
	"testing"
)

func TestWorth(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings map[string]string
		standby  bool
		doubts   []string
	}{
		{map[string]string{"fsync": "on", "full_page_writes": "on", "data_checksums": "on"}, false, nil},
		{map[string]string{"fsync": "off", "full_page_writes": "off", "data_checksums": "off"}, false, []string{"fsync is off", "full_page_writes is off", "the database has no data checksums"}},
		{map[string]string{"synchronous_standby_names": "ANY 1 (a, b)"}, true, nil},
	} {
		d := durabilityOf(test.settings)
		begun := slices.EqualFunc(d.Warnings, test.doubts, strings.HasPrefix)
		if d.Standby != test.standby || !begun || strings.Contains(d.Guarantee, "standby (ANY 1 (a, b))") != test.standby {
			t.Errorf("%v: %+v", test.settings, d)
		}
	}
}
