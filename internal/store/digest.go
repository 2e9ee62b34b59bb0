package store

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"plantstore/internal/plant"
)

// Digester computes the digest of a stored plant: the CRC-32C (RFC 3720 appendix B.4) of its id, content, time and
// creator. A database checks the structure of its file, not its content: a name with a flipped bit is still a valid
// name. Sums of digests show that a plant is missing or was added. A digest detects damage, not forgery.
//
// The zero value is ready to use, by one goroutine at a time.
type Digester struct {
	bytes []byte // scratch
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Plant returns the digest of a plant that the token by created: from 0 to 2^32 - 1, so the sum of 2^31 digests fits an
// int64.
func (d *Digester) Plant(n *plant.NewPlant, at time.Time, by int64) int64 {
	tag, tagged := n.Tag.Get()
	return digest(d, n.ID, at.UnixMicro(), by, n.Name, tag, tagged)
}

// Scanned is Plant without copies of the texts.
func (d *Digester) Scanned(p *Scanned) int64 {
	return digest(d, p.ID, p.CreatedAt, p.CreatedBy, p.Name, p.Tag, p.Tag != nil)
}

func digest[T string | []byte](d *Digester, id, at, by int64, name, tag T, tagged bool) int64 {
	d.bytes = d.bytes[:0]
	d.Integer(id)
	d.Integer(at)
	d.Integer(by)
	d.bytes = appendText(d.bytes, name)
	if tagged {
		d.bytes = appendText(d.bytes, tag)
	}
	return d.Sum()
}

// Integer appends an integer to the input of Sum. Plant, Scanned and Sum reset the input.
func (d *Digester) Integer(v int64) { d.bytes = binary.BigEndian.AppendUint64(d.bytes, uint64(v)) }

// Text appends a text to the input of Sum, after its length, so that different rows have different bytes.
func (d *Digester) Text(v string) { d.bytes = appendText(d.bytes, v) }

func appendText[T string | []byte](dst []byte, v T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// Sum returns the digest of the input.
func (d *Digester) Sum() int64 {
	sum := Checksum(d.bytes)
	d.bytes = d.bytes[:0]
	return int64(sum)
}
