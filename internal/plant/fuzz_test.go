package plant_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"plantstore/internal/plant"
)

// bodies are seeds for fuzzing.
var bodies = []string{
	`{"id":1,"name":"Rosa","tag":"shrub"}`,
	`{"tag":"","\u0069d":-1.50e1,"name":"\ud83d\ude00\n"}`,
	`{"id":9223372036854775808,"name":"\ud800","id":0}`,
	`{"a":[{"b":null},{"b":true,"b":1}],"id":1e3,"name":"\u0000","tag":null}`,
	`[` + strings.Repeat("[", 64),
	" {} x",
	"\xff",
	"{\"id\":0e99,\"name\":\"\xed\xa0\x80\"}",
	`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"name":"","id":10e-1}`,
}

// FuzzDecode compares Decode with encoding/json, which is less strict. It must parse the same plant from every body
// that Decode accepts.
func FuzzDecode(f *testing.F) {
	for _, seed := range bodies {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := slices.Clone(body)
		got, err := plant.Decode(body)
		if !slices.Equal(body, kept) {
			t.Fatalf("Decode changed its input %q to %q", kept, body)
		}
		var refusal *plant.Error
		isRefusal := errors.As(err, &refusal) && refusal.Message != "" && refusal.Code.Status() == 400
		if err != nil && (!isRefusal || got != (plant.NewPlant{})) {
			t.Fatalf("Decode(%q) = %v, %v; want the zero plant and an *Error with status 400", body, got, err)
		}
		if err == nil {
			checkEncodingJSON(t, body, got)
			if again, err := plant.Decode(got.AppendJSON(nil)); err != nil || again != got {
				t.Errorf("encoded and decoded again, %v is %v, %v", got, again, err)
			}
		}
	})
}

// checkEncodingJSON checks that encoding/json parses the same plant.
func checkEncodingJSON(t *testing.T, body []byte, got plant.NewPlant) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		t.Errorf("Decode accepted %q, encoding/json did not: %v", body, err)
		return
	}
	number, isNumber := members["id"].(json.Number)
	if id, ok := exactInteger(number.String()); !isNumber || !ok || id != got.ID {
		t.Errorf("%q: got id %d, want %v as in encoding/json", body, got.ID, members["id"])
	}
	if name, ok := members["name"].(string); !ok || name != got.Name {
		t.Errorf("%q: got name %q, want %v as in encoding/json", body, got.Name, members["name"])
	}
	tag, hasTag := got.Tag.Get()
	if value, ok := members["tag"]; ok != hasTag || ok && value != tag {
		t.Errorf("%q: got tag %q, %t; want %v as in encoding/json", body, tag, hasTag, value)
	}
}

// exactInteger returns the value of a JSON number if it is an int64. It computes with integers of any size.
func exactInteger(number string) (int64, bool) {
	mantissa, exponentText, _ := strings.Cut(strings.ToLower(number), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return 0, false
	}
	exponent := new(big.Int)
	if exponentText != "" {
		if _, ok := exponent.SetString(exponentText, 10); !ok {
			return 0, false
		}
	}
	exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	switch limit := big.NewInt(int64(len(number) + 20)); {
	case digits.Sign() == 0:
		return 0, true
	case exponent.CmpAbs(limit) > 0: // the value has more zeros than the digits, or than int64
		return 0, false
	}
	power := new(big.Int).Exp(big.NewInt(10), new(big.Int).Abs(exponent), nil)
	if exponent.Sign() >= 0 {
		digits.Mul(digits, power)
	} else if _, rest := digits.QuoRem(digits, power, new(big.Int)); rest.Sign() != 0 {
		return 0, false
	}
	return digits.Int64(), digits.IsInt64()
}
