package terminal

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// Without a terminal, progress is a line every minute; --quiet leaves only warnings and errors.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		quiet bool
		want  string
	}{
		{"shown", false, "3 rows\n50%\n3 plants, 30%\nhalf is done\nline 3 is invalid\n"},
		{"quiet", true, "line 3 is invalid\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				p := (&Streams{Stderr: &stderr, Quiet: tt.quiet}).NewProgress(-1)
				for _, show := range []func(){
					func() { p.Rows(3) },
					func() { p.Part(5, 10) },
					func() { p.Plants(3, 10) },
				} {
					<-time.After(plainEvery)
					show()
				}
				p.Info("half is done")
				p.Line("line 3 is invalid")
				p.End()
				if got := stderr.String(); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}
