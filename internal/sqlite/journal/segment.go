package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Segment describes an object with consecutive commits of one store, which never changes. Their times never go back.
//
// The object is a zstd stream (RFC 8878) of a line of JSON with these fields and, for each commit, the number of
// bytes of its changes, the microseconds since the commit before, both as varints, and the changes.
type Segment struct {
	Format   int       `json:"format"`   // segmentFormat
	Store    string    `json:"store"`    // identity of the store, in hexadecimal digits
	Timeline string    `json:"timeline"` // has the commits; the caller chooses the form
	First    int64     `json:"first"`    // number of the first commit
	Last     int64     `json:"last"`     // number of the last commit
	From     time.Time `json:"from"`     // time of the first commit
	To       time.Time `json:"to"`       // time of the last commit
	Before   string    `json:"before"`   // history before the first commit, in hexadecimal digits
	After    string    `json:"after"`    // history after the last commit, in hexadecimal digits
}

const segmentFormat = 1

// The name of a segment is its prefix, the timeline, the numbers of its commits, the latest time, the short history
// after it, and the suffix.
const (
	nameSuffix = ".commits.zst"
	nameTime   = "20060102T150405.000000Z"
)

// ShortHistory is the number of hexadecimal digits of a history in a name.
const ShortHistory = 16

// Name returns the name of the object. The names of the segments of a store sort by their commits.
func (s *Segment) Name(prefix string) string {
	return fmt.Sprintf("%s%s.%012d-%012d-%s-%s%s", prefix, s.Timeline, s.First, s.Last,
		s.To.UTC().Format(nameTime), s.After[:ShortHistory], nameSuffix)
}

// ParseName returns what the name of an object tells about its segment. The history is short. ok is false for any other
// object.
func ParseName(prefix, name string) (s Segment, ok bool) {
	middle, ok := strings.CutPrefix(name, prefix)
	middle, isSegment := strings.CutSuffix(middle, nameSuffix)
	timeline, middle, hasTimeline := strings.Cut(middle, ".")
	fields := strings.Split(middle, "-")
	if !ok || !isSegment || !hasTimeline || timeline == "" || len(fields) != 4 {
		return s, false
	}
	var errs [3]error
	s.Timeline = timeline
	s.First, errs[0] = strconv.ParseInt(fields[0], 10, 64)
	s.Last, errs[1] = strconv.ParseInt(fields[1], 10, 64)
	s.To, errs[2] = time.Parse(nameTime, fields[2])
	s.After = fields[3]
	ok = errors.Join(errs[:]...) == nil && len(s.After) == ShortHistory &&
		s.First > 0 && s.First <= s.Last && s.Name(prefix) == name
	return s, ok
}

// Encoder makes segments. The zero value is ready to use, by one goroutine at a time.
type Encoder struct {
	zstd *zstd.Encoder
	out  bytes.Buffer
	at   int64
	b    []byte // scratch
}

// windowBytes bounds the memory of an Encoder and of a reader.
const windowBytes = 512 << 10

// Encode returns the segment of consecutive commits of a timeline of a store, at least one, and its content, which is
// valid until the next call.
func (e *Encoder) Encode(
	store, timeline string, before History, commits []Commit,
) (s Segment, content []byte, err error) {
	first, last := &commits[0], &commits[len(commits)-1]
	s = Segment{
		Format: segmentFormat, Store: store, Timeline: timeline, First: first.Number, Last: last.Number,
		From: first.At, To: last.At, Before: before.String(),
	}
	for i := range commits {
		if n := len(commits[i].Changes); n > changesBytesMax {
			return s, nil, fmt.Errorf("commit %d has %d bytes of changes; a segment has at most %d",
				commits[i].Number, n, changesBytesMax)
		}
		before = before.After(&commits[i])
	}
	s.After = before.String()
	if err := e.begin(&s); err != nil {
		return s, nil, err
	}
	for i := range commits {
		if err := e.add(&commits[i]); err != nil {
			return s, nil, err
		}
	}
	content, err = e.end()
	return s, content, err
}

// Merge returns one segment of the contents of segments, each of which follows the one before, and its content, which
// is valid until the next call. The error wraps ErrDamaged if they are not whole.
func (e *Encoder) Merge(contents [][]byte) (merged Segment, content []byte, err error) {
	for i, content := range contents {
		s, err := readFirstLine(content)
		switch {
		case err != nil:
			return merged, nil, fmt.Errorf("the segment after commit %d: %w", merged.Last, err)
		case i == 0:
			merged = s
		case s.Store != merged.Store || s.Timeline != merged.Timeline || s.First != merged.Last+1 || s.Before != merged.After:
			return merged, nil, damaged("the commits from %d do not follow commit %d", s.First, merged.Last)
		}
		merged.Last, merged.To, merged.After = s.Last, s.To, s.After
	}
	if err := e.begin(&merged); err != nil {
		return merged, nil, err
	}
	for _, content := range contents {
		s, err := Read(bytes.NewReader(content), func(c *Commit, _ History) error { return e.add(c) })
		if err != nil {
			return merged, nil, fmt.Errorf("the segment of commit %d: %w", s.First, err)
		}
	}
	content, err = e.end()
	return merged, content, err
}

// begin begins the content of a segment.
func (e *Encoder) begin(s *Segment) (err error) {
	e.out.Reset()
	e.at = 0
	if e.zstd == nil {
		e.zstd, err = zstd.NewWriter(&e.out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes),
			zstd.WithLowerEncoderMem(true))
		if err != nil {
			return err
		}
	} else {
		e.zstd.Reset(&e.out)
	}
	header, err := json.Marshal(s)
	if err == nil {
		_, err = e.zstd.Write(append(header, '\n'))
	}
	return err
}

// add appends a commit.
func (e *Encoder) add(c *Commit) error {
	at := c.At.UnixMicro()
	if at < e.at { // no reader would accept it
		return fmt.Errorf("commit %d has the time %v, which is before that of the commit before it", c.Number, c.At)
	}
	e.b = binary.AppendUvarint(e.b[:0], uint64(len(c.Changes)))
	e.b = binary.AppendVarint(e.b, at-e.at)
	e.at = at
	_, err := e.zstd.Write(e.b)
	if err == nil {
		_, err = e.zstd.Write(c.Changes)
	}
	return err
}

// end returns the content of the segment.
func (e *Encoder) end() ([]byte, error) {
	err := e.zstd.Close()
	return e.out.Bytes(), err
}

// ErrDamaged is the error for a segment whose content is not whole.
var ErrDamaged = errors.New("the segment is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

const changesBytesMax = 256 << 20 // largest commit; a batch of a server has at most 32 MiB of texts

// readFirstLine reads the first line of a segment. The error wraps ErrDamaged.
func readFirstLine(content []byte) (s Segment, err error) {
	z, err := newReader(bytes.NewReader(content))
	if err != nil {
		return s, err
	}
	defer z.Close()
	return readHeader(bufio.NewReaderSize(z, headerBytesMax))
}

func newReader(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowBytes),
		zstd.WithDecoderLowmem(true))
}

const headerBytesMax = 64 << 10 // more than any first line

// readHeader reads the first line of the content of a segment.
func readHeader(r *bufio.Reader) (s Segment, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return s, damaged("its first line: %w", err)
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return s, damaged("its first line: %w", err)
	}
	switch {
	case s.Format != segmentFormat:
		return s, fmt.Errorf("the segment has format %d, and this plantstore supports only format %d",
			s.Format, segmentFormat)
	case s.First < 1 || s.Last < s.First || ParseHistory(s.Before).String() != s.Before ||
		ParseHistory(s.After).String() != s.After:
		return s, damaged("its first line has other values")
	}
	return s, nil
}

// Read reads a whole segment, and calls each with every commit and the history after it. A commit is valid until each
// returns, and its time is not before the previous commit's. Read compares the commits with the histories and the
// end of the segment only after the last of them. The error wraps ErrDamaged, or comes from r or each.
func Read(r io.Reader, each func(c *Commit, after History) error) (s Segment, err error) {
	z, err := newReader(r)
	if err != nil {
		return s, err
	}
	defer z.Close()
	in := bufio.NewReaderSize(z, headerBytesMax)
	if s, err = readHeader(in); err != nil {
		return s, err
	}
	history, at := ParseHistory(s.Before), int64(0)
	var c Commit
	for c.Number = s.First; c.Number <= s.Last; c.Number++ {
		size, err := binary.ReadUvarint(in)
		if err == nil && size > changesBytesMax {
			err = fmt.Errorf("%d bytes of changes", size)
		}
		var since int64
		if err == nil {
			since, err = binary.ReadVarint(in)
		}
		if err == nil {
			c.Changes, err = readBytes(in, c.Changes[:0], int(size))
		}
		if err != nil {
			return s, damaged("commit %d: %w", c.Number, err)
		}
		before := at
		at += since // which may overflow
		c.At = time.UnixMicro(at).UTC()
		if at < before || c.Number == s.First && !c.At.Equal(s.From) {
			return s, damaged("the time of commit %d, %v, goes back or is not that of the first line", c.Number, c.At)
		}
		history = history.After(&c)
		if err := each(&c, history); err != nil {
			return s, err
		}
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return s, damaged("more data follows commit %d: %w", s.Last, err)
	}
	if history.String() != s.After || !c.At.Equal(s.To) {
		return s, damaged("its commits are not those of its first line")
	}
	return s, nil
}

// readBytes appends n bytes. It allocates no more than it can read, because n comes from the object.
func readBytes(r io.Reader, b []byte, n int) ([]byte, error) {
	buffer := bytes.NewBuffer(b)
	copied, err := io.CopyN(buffer, r, int64(n))
	if err == nil && copied < int64(n) {
		err = io.ErrUnexpectedEOF
	}
	return buffer.Bytes(), err
}
