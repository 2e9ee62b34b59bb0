package dump_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

var compressions = []dump.Compression{dump.None, dump.Gzip, dump.Zstd}

// decompressAll returns the decompressed content of a file.
func decompressAll(r io.Reader) ([]byte, error) {
	d, err := dump.Decompress(r)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(d)
	return out, errors.Join(err, d.Close())
}

func TestDecompress(t *testing.T) {
	t.Parallel()
	plants := benchPlants(1200) // more bytes than a window
	want := write(t, dump.JSONL, dump.None, plants)
	skippable := []byte{0x5f, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	for _, tt := range []struct {
		name string
		file []byte
		want []byte
	}{
		{"plain", want, want},
		{"gzip", write(t, dump.JSONL, dump.Gzip, plants), want},
		{"zstd", write(t, dump.JSONL, dump.Zstd, plants), want},
		{"two gzip members", bytes.Repeat(write(t, dump.JSONL, dump.Gzip, plants), 2), bytes.Repeat(want, 2)},
		{"two zstd frames", bytes.Repeat(write(t, dump.JSONL, dump.Zstd, plants), 2), bytes.Repeat(want, 2)},
		{"zstd after a frame to be skipped", append(skippable, write(t, dump.JSONL, dump.Zstd, plants)...), want},
		{"gzip of nothing", write(t, dump.JSONL, dump.Gzip, nil), nil},
		{"zstd of nothing", write(t, dump.JSONL, dump.Zstd, nil), nil},
		{"nothing", nil, nil},
		{"short", []byte("[]"), []byte("[]")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{bytes.NewReader(tt.file), iotest.OneByteReader(bytes.NewReader(tt.file))} {
				if got, err := decompressAll(r); err != nil || !bytes.Equal(got, tt.want) {
					t.Errorf("got %d bytes, %v; want %d", len(got), err, len(tt.want))
				}
			}
		})
	}
}

// A file that is truncated at any byte is an error. A file of fewer than four bytes does not count as compressed.
func TestDecompressTruncated(t *testing.T) {
	t.Parallel()
	plants := benchPlants(50)
	for _, compression := range []dump.Compression{dump.Gzip, dump.Zstd} {
		file := write(t, dump.JSONL, compression, plants)
		for n := 4; n < len(file); n++ {
			_, err := decompressAll(bytes.NewReader(file[:n]))
			want := "decompress " + string(compression) + ": the file is truncated: unexpected EOF"
			if errorText(err) != want || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%d of %d bytes: got %v, want %q", n, len(file), err, want)
			}
		}
		r, err := dump.Decompress(bytes.NewReader(file[:len(file)-1]))
		if err != nil {
			t.Fatal(err)
		}
		if _, failure := read(r, dump.JSONL); !strings.Contains(failure, "the file is truncated") {
			t.Errorf("%s: Read ended with %q, want the error of a truncated file", compression, failure)
		}
	}
}

func TestDecompressDamaged(t *testing.T) {
	t.Parallel()
	for _, compression := range []dump.Compression{dump.Gzip, dump.Zstd} {
		file := write(t, dump.JSONL, compression, benchPlants(50))
		longer := append(bytes.Clone(file), "and more"...)
		for _, damaged := range [][]byte{longer, flipped(file, len(file)/2), flipped(file, len(file)-1)} {
			_, err := decompressAll(bytes.NewReader(damaged))
			if prefix := "decompress " + string(compression) + ": "; !strings.HasPrefix(errorText(err), prefix) {
				t.Errorf("%s: got %v, want an error that begins with %q", compression, err, prefix)
			}
		}
	}
	broken := errors.New("the disk is gone")
	if _, err := dump.Decompress(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func flipped(file []byte, i int) []byte {
	file = bytes.Clone(file)
	file[i] ^= 0x10
	return file
}

// White space compresses more than a thousandfold; its decompression needs bounded memory. The test measures the heap
// of the whole program, so it does not run in parallel with others.
func TestDecompressBomb(t *testing.T) {
	const size, heapMax = 12 << 20, 4 << 20
	for _, compression := range compressions[1:] {
		bomb := compress(t, compression, io.LimitReader(repeat(strings.Repeat(" ", 1023)+"\n"), size))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := dump.Decompress(bytes.NewReader(bomb))
		if err != nil {
			t.Fatal(err)
		}
		if rows, failure := read(r, dump.JSONL); rows != nil || failure != "" {
			t.Errorf("%s: got %d rows, %q; want none", compression, len(rows), failure)
		}
		r.Close()
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > heapMax {
			t.Errorf("%s: the read allocated %d bytes for a file of %d, want at most %d", compression, grown, len(bomb), heapMax)
		}
	}
}

func compress(t *testing.T, c dump.Compression, r io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	var z io.WriteCloser = gzip.NewWriter(&out)
	if c == dump.Zstd {
		var err error
		if z, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(z, r); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Decompress refuses a zstd file with a window of 128 MiB before it allocates the window.
func TestDecompressWindow(t *testing.T) {
	t.Parallel()
	file := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0x01, 0x00, 0x00} // RFC 8878 section 3.1.1.1.2: 2^(10+17) bytes
	if _, err := decompressAll(bytes.NewReader(file)); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("got %v, want %v", err, zstd.ErrWindowSizeExceeded)
	}
	file[5] = 16 << 3
	if out, err := decompressAll(bytes.NewReader(file)); err != nil || len(out) > 0 {
		t.Errorf("64 MiB: got %q, %v, want nothing", out, err)
	}
}

func TestCompressedFormats(t *testing.T) {
	t.Parallel()
	plants := []plant.NewPlant{tagged(1, "Rosa", "shrub"), named(2, "Bellis")}
	for _, format := range formats {
		for _, compression := range compressions {
			r, err := dump.Decompress(bytes.NewReader(write(t, format, compression, plants)))
			if err != nil {
				t.Fatal(err)
			}
			if got := mustRead(t, r, format); len(got) != 2 || got[0] != plants[0] || got[1] != plants[1] {
				t.Errorf("%s, %s: got %v, want %v", format, compression, got, plants)
			}
		}
	}
}
