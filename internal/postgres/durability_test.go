package postgres

import (
	"slices"
	"strings"
	"testing"
)

func TestDurabilityOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings map[string]string
		standby  bool
		warnings []string // their beginnings
	}{
		{map[string]string{"fsync": "on", "full_page_writes": "on", "data_checksums": "on"}, false, nil},
		{
			map[string]string{"fsync": "off", "full_page_writes": "off", "data_checksums": "off"},
			false,
			[]string{"fsync is off", "full_page_writes is off", "the database has no data checksums"},
		},
		{map[string]string{"synchronous_standby_names": "ANY 1 (a, b)"}, true, nil},
	} {
		d := durabilityOf(test.settings)
		warned := slices.EqualFunc(d.Warnings, test.warnings, strings.HasPrefix)
		guaranteed := strings.Contains(d.Guarantee, "standby (ANY 1 (a, b))")
		if d.Standby != test.standby || !warned || guaranteed != test.standby {
			t.Errorf("%v: %+v", test.settings, d)
		}
	}
}
