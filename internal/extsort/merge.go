package extsort

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"iter"
	"os"
	"slices"
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

func compareSources(a, b *source) int {
	return cmp.Or(cmp.Compare(a.record.Key, b.record.Key), cmp.Compare(a.number, b.number))
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
		runs, err = advance(runs)
	}
	return err
}

// sources returns the runs by their current records. next returns the records of the last run, which is in memory.
func (s *Sorter) sources(next func() (Record, bool)) (runs []*source, err error) {
	last := &Record{}
	all := []*source{{last, len(s.written), func() (ok bool, err error) {
		*last, ok = next()
		return ok, nil
	}}}
	buffer := max(readBytesMin, readBytes/len(s.written))
	for number, extent := range s.written {
		r := newRunReader(s.file, extent, buffer)
		all = append(all, &source{&r.Record, number, r.next})
	}
	for _, run := range all {
		ok, err := run.next()
		if err != nil {
			return nil, err
		}
		if ok {
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, compareSources)
	return runs, nil
}

// advance replaces the least record by the next one of its run.
func advance(runs []*source) ([]*source, error) {
	first, rest := runs[0], runs[1:]
	ok, err := first.next()
	if err != nil || !ok {
		return rest, err
	}
	i, _ := slices.BinarySearchFunc(rest, first, compareSources)
	copy(runs, rest[:i])
	runs[i] = first
	return runs, nil
}
