package backup

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/journal"
)

// TestNamesAreShort creates the temporary file of a segment, which has the longest name of a destination: eCryptfs and
// the encrypted shares of a NAS allow 143 bytes.
func TestNamesAreShort(t *testing.T) {
	t.Parallel()
	const bytesMax, digitsMax = 143, 10 // at the end of the name of a temporary file
	names := seriesOf(strings.Repeat("n", 30) + ".db")
	s := journal.Segment{
		Timeline: newID(), First: 999_999_999_999, Last: 999_999_999_999, To: time.Now(), After: journal.History{}.String(),
	}
	name := s.Name(names.segmentPrefix())
	f, err := safefile.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	temporary := filepath.Base(f.Name())
	if err := f.Discard(); err != nil {
		t.Fatal(err)
	}
	longest := len(strings.TrimRight(temporary, "0123456789")) + digitsMax
	if longest > bytesMax {
		t.Errorf("%s has %d bytes, its temporary file up to %d, want at most %d", name, len(name), longest, bytesMax)
	}
	if shorter := len(seriesOf("plantstore.db").segmentPrefix()) - len(names.segmentPrefix()); len(name)+shorter != 106 {
		t.Errorf("of plantstore.db: %d bytes", len(name)+shorter)
	}
}
