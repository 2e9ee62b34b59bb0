package sqlite

import (
	"encoding/binary"
	"hash/crc32"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite/sqlite3"
)

// A digest is the CRC-32C (RFC 3720 appendix B.4) of what a row holds. SQLite
// checks how a file is built but not what it says: a bit that falls over in a
// name is a different name to it. Sums of digests tell that a row is missing,
// or is there that should not be. All of this finds damage, not forgery.
type digester struct {
	bytes []byte // scratch
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// plant returns the digest of a row of plants: from 0 to 2^32 - 1, so that a
// sum of two thousand million of them is still an int64.
func (d *digester) plant(n plant.NewPlant, createdAt, createdBy int64) int64 {
	d.bytes = d.bytes[:0]
	d.integer(n.ID)
	d.integer(createdAt)
	d.integer(createdBy)
	d.text(n.Name)
	if tag, ok := n.Tag.Get(); ok {
		d.text(tag)
	}
	return d.sum()
}

// token returns the digest of a row of tokens but for its last use, which may
// be lost: the columns of tokenDigestSQL.
func (d *digester) token(s *sqlite3.Stmt) int64 {
	d.bytes = d.bytes[:0]
	for column := range 4 {
		d.text(s.Text(column))
	}
	for column := 4; column < 7; column++ {
		if !s.Null(column) {
			d.integer(int64(column))
			d.integer(s.Int64(column))
		}
	}
	return d.sum()
}

const tokenDigestSQL = "SELECT cast(id AS TEXT), name, hash, scopes, created_at, expires_at, revoked_at FROM tokens" //nolint:gosec // a statement, no credential

func (d *digester) integer(v int64) { d.bytes = binary.BigEndian.AppendUint64(d.bytes, uint64(v)) }

// text puts the length first, so that no two rows are the same bytes.
func (d *digester) text(v string) {
	d.bytes = append(binary.AppendUvarint(d.bytes, uint64(len(v))), v...)
}

func (d *digester) sum() int64 { return int64(crc32.Checksum(d.bytes, castagnoli)) }

// tokens returns the sum of the digests of all tokens, and how many they are.
func (d *digester) tokens(c *sqlite3.Conn) (sum, n int64, err error) {
	s, err := c.Prepare(tokenDigestSQL)
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	for {
		ok, err := s.Step()
		if err != nil || !ok {
			return sum, n, err
		}
		sum += d.token(s)
		n++
	}
}
