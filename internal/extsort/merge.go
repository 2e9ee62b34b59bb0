package extsort

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"slices"
)

// readBytes is the size of the read buffer that all runs share, with at least readBytesMin for each.
const (
	readBytes    = 4 << 20
	readBytesMin = 16 << 10
)

// runReader reads the records of a run that Sorter.write wrote.
type runReader struct {
	r      *bufio.Reader
	number int // position of the run: of two equal keys, the earlier run's comes first
	Record     // the current one
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

func compareRuns(a, b *runReader) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.number, b.number))
}

// merge yields the records of all runs. It returns an error that it has not yielded.
func (s *Sorter) merge(yield func(Record, error) bool) error {
	runs, err := s.readers()
	for err == nil && len(runs) > 0 {
		if !yield(runs[0].Record, nil) {
			return nil
		}
		runs, err = advance(runs)
	}
	return err
}

// readers returns the runs by their first records.
func (s *Sorter) readers() (runs []*runReader, err error) {
	buffer := max(readBytesMin, readBytes/len(s.written))
	for number, e := range s.written {
		section := io.NewSectionReader(s.file, e.start, e.length)
		run := &runReader{r: bufio.NewReaderSize(section, buffer), number: number}
		if _, err := run.next(); err != nil { // no run is empty
			return nil, err
		}
		runs = append(runs, run)
	}
	slices.SortFunc(runs, compareRuns)
	return runs, nil
}

// advance replaces the least record by the next one of its run.
func advance(runs []*runReader) ([]*runReader, error) {
	first, rest := runs[0], runs[1:]
	ok, err := first.next()
	if err != nil || !ok {
		return rest, err
	}
	i, _ := slices.BinarySearchFunc(rest, first, compareRuns)
	copy(runs, rest[:i])
	runs[i] = first
	return runs, nil
}
