package backup

import (
	"context"
	"fmt"
	"io"

	"plantstore/internal/sqlite/journal"
)

// segment is a segment in a destination.
type segment struct {
	journal.Segment // as far as its name has it

	name  string
	bytes int64
}

// segmentBytesMax bounds the content of a segment that is read. A segment has about shipBytes or mergedBytes, unless
// a single commit is larger.
const segmentBytesMax = 512 << 20

// readSegment returns the content of a segment.
func readSegment(ctx context.Context, to destination, s segment) ([]byte, error) {
	r, err := to.open(ctx, s.name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.location(s.name), err)
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, segmentBytesMax+1))
	if err == nil && len(content) > segmentBytesMax {
		err = fmt.Errorf("it has more than %d bytes", segmentBytesMax)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.location(s.name), err)
	}
	return content, nil
}
