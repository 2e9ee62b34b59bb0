package extsort

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"io"
	"iter"
	"os"
)

// Write buffer per run; read buffer shared by all runs, with at least readBytesMin for each.
const (
	writeBytes   = 1 << 20
	readBytes    = 4 << 20
	readBytesMin = 16 << 10
)

// runWriter writes the records of a run: the key in 8 bytes, the length of the data as a varint, the data.
type runWriter struct {
	w      *bufio.Writer
	length int64
	head   [8 + binary.MaxVarintLen64]byte
}

func newRunWriter(w io.Writer) *runWriter {
	return &runWriter{w: bufio.NewWriterSize(w, writeBytes)}
}

// write writes a record. close returns its error.
func (w *runWriter) write(r Record) {
	binary.LittleEndian.PutUint64(w.head[:], uint64(r.Key))
	n := 8 + binary.PutUvarint(w.head[8:], uint64(len(r.Data)))
	_, _ = w.w.Write(w.head[:n])
	_, _ = w.w.Write(r.Data)
	w.length += int64(n + len(r.Data))
}

// close ends the run and returns its length.
func (w *runWriter) close() (int64, error) { return w.length, w.w.Flush() }

// runReader reads the records of a run.
type runReader struct {
	r      *bufio.Reader
	Record // the current one
}

func newRunReader(file *os.File, e extent, buffer int) *runReader {
	return &runReader{r: bufio.NewReaderSize(io.NewSectionReader(file, e.start, e.length), buffer)}
}

// next reads the next record. It returns false at the end of the run.
func (r *runReader) next() (bool, error) {
	var key [8]byte
	if _, err := io.ReadFull(r.r, key[:]); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, err
	}
	r.Key = int64(binary.LittleEndian.Uint64(key[:]))
	length, err := binary.ReadUvarint(r.r)
	if err != nil {
		return false, err
	}
	if uint64(cap(r.Data)) < length {
		r.Data = make([]byte, length, 2*length)
	}
	r.Data = r.Data[:length]
	_, err = io.ReadFull(r.r, r.Data)
	return err == nil, err
}

// source is a run that is merged.
type source struct {
	record *Record              // the current one
	number int                  // of the run: of two equal keys, the earlier run's comes first
	next   func() (bool, error) // reads the next record; false: the run has ended
}

// sources is a heap (container/heap) with the least record first.
type sources []source

func (s sources) Len() int { return len(s) }

func (s sources) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(s[i].record.Key, s[j].record.Key), cmp.Compare(s[i].number, s[j].number)) < 0
}

func (s sources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements heap.Interface.
func (s *sources) Push(x any) { *s = append(*s, x.(source)) }

// Pop implements heap.Interface.
func (s *sources) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// merge yields the records of all runs. It returns an error that it has not yielded.
func (s *Sorter) merge(yield func(Record, error) bool) error {
	if len(s.written) == 0 {
		for record := range s.run.sorted() {
			if !yield(record, nil) {
				return nil
			}
		}
		return nil
	}
	next, stop := iter.Pull(s.run.sorted())
	defer stop()
	runs, err := s.sources(next)
	for err == nil && len(runs) > 0 {
		if !yield(*runs[0].record, nil) {
			return nil
		}
		err = runs.advance()
	}
	return err
}

// sources returns the runs. next returns the records of the last one, which is in memory.
func (s *Sorter) sources(next func() (Record, bool)) (runs sources, err error) {
	last := &Record{}
	all := sources{{last, len(s.written), func() (ok bool, err error) {
		*last, ok = next()
		return ok, nil
	}}}
	buffer := max(readBytesMin, readBytes/len(s.written))
	for number, extent := range s.written {
		r := newRunReader(s.file, extent, buffer)
		all = append(all, source{&r.Record, number, r.next})
	}
	for _, run := range all {
		ok, err := run.next()
		if err != nil {
			return nil, err
		}
		if ok {
			heap.Push(&runs, run)
		}
	}
	return runs, nil
}

// advance replaces the least record by the next one of its run.
func (s *sources) advance() error {
	ok, err := (*s)[0].next()
	switch {
	case err != nil:
		return err
	case ok:
		heap.Fix(s, 0)
	default:
		heap.Pop(s)
	}
	return nil
}
