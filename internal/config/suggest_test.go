package config

import "testing"

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	names := []string{"list", "listen", "log-level", "q"}
	for name, want := range map[string]string{
		"lsit": "list", "lis": "list", "lists": "list", "listn": "list", "lisen": "listen",
		"log_level": "log-level", "loglevl": "log-level",
		"list": "", "": "", "x": "", "qq": "", "liar": "", "lo": "", "loglvl": "", "level": "", "plants": "",
	} {
		if want != "" {
			want = " (did you mean " + want + "?)"
		}
		if got := DidYouMean(name, names); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"abc", "ac", 1},
		{"abc", "axc", 1},
		{"abc", "acb", 1},
		{"abcd", "badc", 2},
		{"kitten", "sitting", 3},
	} {
		if got, back := distance(row.a, row.b), distance(row.b, row.a); got != row.want || back != row.want {
			t.Errorf("%q, %q: got %d, and %d reversed, want %d", row.a, row.b, got, back, row.want)
		}
	}
}
