package plant_test

import (
	"math"
	"strings"
	"testing"

	"plantstore/internal/plant"
)

func TestDecodeID(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 60_000)
	for _, tt := range []struct {
		number string
		want   int64
	}{
		{"0", 0},
		{"-0", 0},
		{"-0.0e-5", 0},
		{"0e999999999", 0},
		{"0.000e-99999999999999999999", 0},
		{"7", 7},
		{"-12", -12},
		{"1.0", 1},
		{"-1.000", -1},
		{"1e3", 1000},
		{"1E+3", 1000},
		{"1e00000000000000000000003", 1000},
		{"10e-1", 1},
		{"1200.00e-2", 12},
		{"0.5e1", 5},
		{"0.0012e4", 12},
		{"12.5e1", 125},
		{"1e18", 1_000_000_000_000_000_000},
		{"-9e18", -9_000_000_000_000_000_000},
		{"9007199254740993", 9_007_199_254_740_993}, // 2^53+1, which is not a float64
		{"9223372036854775807", math.MaxInt64},
		{"-9223372036854775808", math.MinInt64},
		{"9223372036854775807.0", math.MaxInt64},
		{"9.223372036854775807e18", math.MaxInt64},
		{"-0.9223372036854775808e19", math.MinInt64},
		{"92233720368547758070e-1", math.MaxInt64},
		{"1." + zeros, 1},
		{"1" + zeros + "e-60000", 1},
		{"0." + zeros + "1e60001", 1},
		{"-922337203685477580800." + zeros + "e-2", math.MinInt64},
	} {
		got, err := plant.Decode([]byte(`{"id":` + tt.number + `,"name":""}`))
		if want := named(tt.want, ""); err != nil || got != want {
			t.Errorf("%.60s: got %v, %v; want %v", tt.number, got, err, want)
		}
	}
}

func TestDecodeIDFaults(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("1", 60_000)
	var faults []fault
	for number, code := range map[string]plant.Code{
		"0.5":                                  plant.CodeIDNotInteger,
		"1e-1":                                 plant.CodeIDNotInteger,
		"-1.5":                                 plant.CodeIDNotInteger,
		"12e-2":                                plant.CodeIDNotInteger,
		"9223372036854775807.5":                plant.CodeIDNotInteger,
		"9223372036854775808.5":                plant.CodeIDNotInteger,
		"1e-2147483648":                        plant.CodeIDNotInteger,
		"1e-99999999999999999999999":           plant.CodeIDNotInteger,
		"0." + digits:                          plant.CodeIDNotInteger,
		"1." + digits:                          plant.CodeIDNotInteger,
		digits + "e-1":                         plant.CodeIDNotInteger,
		"9223372036854775808":                  plant.CodeIDOutOfRange,
		"-9223372036854775809":                 plant.CodeIDOutOfRange,
		"9223372036854775808.0":                plant.CodeIDOutOfRange,
		"9.223372036854775808e18":              plant.CodeIDOutOfRange,
		"1e19":                                 plant.CodeIDOutOfRange,
		"-1e19":                                plant.CodeIDOutOfRange,
		"18446744073709551617":                 plant.CodeIDOutOfRange, // 2^64+1, which overflows to 1
		"1e2147483647":                         plant.CodeIDOutOfRange,
		"1e+99999999999999999999999":           plant.CodeIDOutOfRange,
		"0.00001e99999999999999999999":         plant.CodeIDOutOfRange,
		digits:                                 plant.CodeIDOutOfRange,
		"-" + digits + "." + digits + "e60000": plant.CodeIDOutOfRange,
	} {
		rule := "id must be a 64-bit integer; got "
		if code == plant.CodeIDOutOfRange {
			rule = "id must be from -9223372036854775808 to 9223372036854775807; got "
		}
		got := number
		if len(got) > 40 {
			got = got[:40] + "…"
		}
		faults = append(faults, fault{got, `{"id":` + number + `,"name":""}`, code, rule + got})
	}
	checkFaults(t, faults)
}
