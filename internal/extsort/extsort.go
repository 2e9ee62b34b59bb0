// Package extsort sorts records by a key in bounded memory. It sorts runs of records in memory, writes the runs to a
// temporary file if there is more than one, and merges them (Knuth, The Art of Computer Programming, volume 3, section
// 5.4.1).
package extsort

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
)

// Record is bytes with a key.
type Record struct {
	Key  int64
	Data []byte
}

// Sorter sorts the records of Add. It is not safe for concurrent use.
type Sorter struct {
	dir    string
	memory int

	run     *run       // the records since the last spill
	spare   *run       // the memory of a spilled run, for the next one
	file    *os.File   // holds the spilled runs; nil: none
	length  int64      // size of the file
	written []extent   // the spilled runs, in the order of Add
	spills  chan error // a result for the run that a goroutine writes; nil: none
}

// run is the records of one run, in the order of Add.
type run struct {
	data    []byte
	entries []entry
}

// entry is a record in run.data.
type entry struct {
	key        int64
	start, end uint32
}

// recordMax is the largest number of bytes of a record, so that an entry can have offsets of 32 bits.
const recordMax = 1 << 30

// extent is a part of the file.
type extent struct{ start, length int64 }

// New returns an empty sorter. A run takes at most memory bytes, plus one record; there are two at a time: one is
// filled while the other is written. The temporary file is in dir; an empty dir is the directory of the system's
// temporary files. Close removes it, and so does the end of the process.
func New(dir string, memory int) *Sorter {
	return &Sorter{dir: dir, memory: min(memory, math.MaxInt32-recordMax), run: &run{}}
}

// size returns the bytes of memory of the records and their entries.
func (r *run) size() int {
	const entryBytes = 16
	return len(r.data) + len(r.entries)*entryBytes
}

// Add adds a record. The sorter keeps a copy of its data. After an error, the sorter can only be closed.
func (s *Sorter) Add(r Record) error {
	if len(r.Data) > recordMax {
		return fmt.Errorf("sort a record of %d bytes; the maximum is %d", len(r.Data), recordMax)
	}
	if len(s.run.entries) > 0 && s.run.size() >= s.memory {
		if err := s.spill(); err != nil {
			return fmt.Errorf("write a sorted run: %w", err)
		}
	}
	start := len(s.run.data)
	s.run.data = append(s.run.data, r.Data...)
	s.run.entries = append(s.run.entries, entry{r.Key, uint32(start), uint32(len(s.run.data))})
	return nil
}

// spill begins to write the run to the file, and begins an empty one.
func (s *Sorter) spill() error {
	if err := s.wait(); err != nil {
		return err
	}
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, ".plantstore-sort-*")
		if err != nil {
			return err
		}
		s.file = file
		if err := os.Remove(file.Name()); err != nil { // the file exists until it is closed
			return err
		}
	}
	full := s.run
	s.run, s.spare = cmp.Or(s.spare, &run{}), full
	s.spills = make(chan error, 1)
	go func() { s.spills <- s.write(full) }() // ends with the write; wait receives its result
	return nil
}

// wait waits until the spilled run is written.
func (s *Sorter) wait() error {
	if s.spills == nil {
		return nil
	}
	err := <-s.spills
	s.spills = nil
	return err
}

// write sorts a run, appends it to the file, and empties it. A record is the key in 8 bytes, the length of the data as
// a varint, and the data.
func (s *Sorter) write(r *run) error {
	const bufferBytes = 1 << 20
	w := bufio.NewWriterSize(s.file, bufferBytes)
	var head []byte
	start := s.length
	for record := range r.sorted() {
		head = binary.LittleEndian.AppendUint64(head[:0], uint64(record.Key))
		head = binary.AppendUvarint(head, uint64(len(record.Data)))
		_, _ = w.Write(head)
		_, _ = w.Write(record.Data)
		s.length += int64(len(head) + len(record.Data))
	}
	if err := w.Flush(); err != nil { // the first error of Write, too
		return err
	}
	s.written = append(s.written, extent{start, s.length - start})
	r.data, r.entries = r.data[:0], r.entries[:0]
	return nil
}

// sorted returns the records by key, those with the same key in the order of Add.
func (r *run) sorted() iter.Seq[Record] {
	slices.SortFunc(r.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	return func(yield func(Record) bool) {
		for _, e := range r.entries {
			if !yield(Record{e.key, r.data[e.start:e.end]}) {
				return
			}
		}
	}
}

// Sorted returns all records by key, those with the same key in the order of Add. The data of a record is valid until
// the next one. The last pair has an error if a run could not be written or read. Sorted may be called once, and Add
// must not be called after it.
func (s *Sorter) Sorted() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if s.file == nil {
			for record := range s.run.sorted() {
				if !yield(record, nil) {
					return
				}
			}
			return
		}
		if err := errors.Join(s.spill(), s.wait()); err != nil {
			yield(Record{}, fmt.Errorf("write a sorted run: %w", err))
			return
		}
		if err := s.merge(yield); err != nil {
			yield(Record{}, fmt.Errorf("read a sorted run: %w", err))
		}
	}
}

// Close ends the sorter and removes its file.
func (s *Sorter) Close() error {
	err := s.wait()
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	*s = Sorter{}
	return err
}
