package store

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"plantstore/internal/plant"
)

// Digester makes the digest of a plant as it is stored: the CRC-32C (RFC 3720
// appendix B.4) of its id, content, time and creator. A database checks how its
// file is built but not what it says: a bit that falls over in a name is a
// different name to it. Sums of digests tell that a plant is missing, or is there
// that should not be. All of this finds damage, not forgery.
//
// The zero value is ready to use, by one goroutine at a time.
type Digester struct {
	bytes []byte // scratch
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Plant returns the digest of a plant that the token by created: from 0 to 2^32 - 1, so that a sum of two
// thousand million of them is still an int64.
func (d *Digester) Plant(n *plant.NewPlant, at time.Time, by int64) int64 {
	d.bytes = d.bytes[:0]
	d.Integer(n.ID)
	d.Integer(at.UnixMicro())
	d.Integer(by)
	d.Text(n.Name)
	if tag, ok := n.Tag.Get(); ok {
		d.Text(tag)
	}
	return d.Sum()
}

// Integer and Text add to what Sum returns the digest of, which begins anew with
// Plant and with each Sum.
func (d *Digester) Integer(v int64) { d.bytes = binary.BigEndian.AppendUint64(d.bytes, uint64(v)) }

// Text puts the length first, so that no two rows are the same bytes.
func (d *Digester) Text(v string) {
	d.bytes = append(binary.AppendUvarint(d.bytes, uint64(len(v))), v...)
}

// Sum returns the digest of what was added.
func (d *Digester) Sum() int64 {
	sum := Checksum(d.bytes)
	d.bytes = d.bytes[:0]
	return int64(sum)
}
