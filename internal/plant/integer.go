package plant

import (
	"strconv"
	"strings"
)

// parseInteger returns the exact value of a well-formed JSON number. If the value is not an int64, the code is
// CodeIDNotInteger or CodeIDOutOfRange; otherwise it is 0.
//
// A number that is not in the usual form has the value digits × 10^shift. Without trailing zeros in digits, the value
// is an integer if shift is not negative.
func parseInteger(number string) (int64, Code) {
	id, err := strconv.ParseInt(number, 10, 64)
	if err == nil {
		return id, 0
	}
	unsigned := strings.TrimPrefix(number, "-")
	mantissa, exponent := unsigned, int64(0)
	if i := strings.IndexAny(unsigned, "eE"); i >= 0 {
		mantissa = unsigned[:i]
		exponent, _ = strconv.ParseInt(unsigned[i+1:], 10, 31) // the limit beyond it: no body has as many digits
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, 0 // zero with any exponent
	}
	significant := strings.TrimRight(digits, "0")
	shift := len(digits) - len(significant) - len(fraction) + int(exponent)
	switch {
	case shift < 0:
		return 0, CodeIDNotInteger
	case len(significant)+shift > len("9223372036854775808"):
		return 0, CodeIDOutOfRange
	}
	sign := number[:len(number)-len(unsigned)]
	id, err = strconv.ParseInt(sign+significant+strings.Repeat("0", shift), 10, 64)
	if err != nil {
		return 0, CodeIDOutOfRange
	}
	return id, 0
}
