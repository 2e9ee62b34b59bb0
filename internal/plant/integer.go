package plant

import (
	"bytes"
	"strconv"
)

// parseInteger returns the exact value of a well-formed JSON number. If the
// value is not an int64, the code is CodeIDNotInteger or CodeIDOutOfRange;
// otherwise it is 0.
//
// It computes with decimal digits: the value is digits × 10^shift. Without
// trailing zeros in digits, the value is an integer if shift is not negative.
func parseInteger(number []byte) (int64, Code) {
	negative := number[0] == '-'
	if negative {
		number = number[1:]
	}
	mantissa, exponent := number, int64(0)
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		mantissa = number[:i]
		exponent, _ = strconv.ParseInt(string(number[i+1:]), 10, 31) // the limit beyond it: no body has as many digits
	}
	digits, shift := mantissa, 0
	if whole, fraction, ok := bytes.Cut(mantissa, []byte{'.'}); ok {
		digits = append(append(make([]byte, 0, len(mantissa)), whole...), fraction...)
		shift = -len(fraction)
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return 0, 0 // zero with any exponent
	}
	significant := bytes.TrimRight(digits, "0")
	shift += len(digits) - len(significant) + int(exponent)
	switch {
	case shift < 0:
		return 0, CodeIDNotInteger
	case len(significant)+shift > len("9223372036854775808"):
		return 0, CodeIDOutOfRange
	}
	plain := make([]byte, 0, len("-9223372036854775808"))
	if negative {
		plain = append(plain, '-')
	}
	plain = append(plain, significant...)
	for range shift {
		plain = append(plain, '0')
	}
	id, err := strconv.ParseInt(string(plain), 10, 64)
	if err != nil {
		return 0, CodeIDOutOfRange
	}
	return id, 0
}
