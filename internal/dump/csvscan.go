package dump

import (
	"bytes"
	"fmt"
)

// The faults of a cell; refuse adds the column.
const (
	faultQuote  = "has a quote inside an unquoted cell; quote the cell and double each quote inside it"
	faultText   = "has text after the closing quote; double each quote inside a cell"
	faultReturn = "has a carriage return inside an unquoted cell; quote the cell"
	faultFeed   = "has a line feed inside an unquoted cell, in a file with CR as line end; quote the cell"
	faultOpen   = "has an opening quote without a closing quote"
)

// csvScan scans one row, with quotes as in RFC 4180. It can stop after any byte and continue with more data.
//
// A row ends at the first line end outside quotes. After a fault, quotes have no meaning: the row ends at the next line
// end, so a bad row does not extend into the next one.
type csvScan struct {
	state   scanState
	scanned int // bytes of the row
	column  int // number of the current cell, from 1
	start   int // offset of the current cell
	cells   []span
	fault   error

	separator, lineEnd byte
	plain              [256]bool // bytes without a meaning
	oneLine            bool      // a quoted cell ends in its line
	header             []string  // names of the columns, for faults
}

// use sets the separator and the line end of the file.
func (s *csvScan) use(separator, lineEnd byte) {
	s.separator, s.lineEnd = separator, lineEnd
	for c := range s.plain {
		s.plain[c] = c != int(separator) && c != '"' && c != '\r' && c != '\n'
	}
}

type scanState int

const (
	atStart     scanState = iota // at the start of a cell
	inPlain                      // inside an unquoted cell
	inQuotes                     // inside quotes
	afterQuote                   // after a quote that closes the cell, unless another quote follows
	afterReturn                  // after a CR outside quotes; the cell has ended before it
	inFault                      // after a fault
)

// span is the position of a cell in its row, quotes included.
type span struct{ start, end int }

// reset begins a row.
func (s *csvScan) reset() {
	s.state, s.scanned, s.column, s.start = atStart, 0, 1, 0
	s.cells, s.fault = s.cells[:0], nil
}

// scan is a scan for window.row.
func (s *csvScan) scan(data []byte) (n int, done bool) {
	plain, lineEnd := &s.plain, s.lineEnd
	for n < len(data) {
		c := data[n]
		switch {
		case s.state <= inPlain && plain[c]: // most bytes
			s.state = inPlain
			for n++; n < len(data) && plain[data[n]]; n++ {
			}
		case s.state == inQuotes:
			cell := data[n:]
			if s.oneLine {
				if i := bytes.IndexByte(cell, lineEnd); i >= 0 {
					cell = cell[:i]
				}
			}
			i := bytes.IndexByte(cell, '"')
			switch {
			case i >= 0:
				s.state = afterQuote
				n += i + 1
			case len(cell) < len(data)-n:
				s.state = s.refuse(faultOpen)
				n += len(cell)
			default:
				s.scanned += len(data)
				return len(data), false
			}
		case c == lineEnd:
			s.endCell(s.scanned + n)
			return n + 1, true
		case s.state == inFault:
			i := bytes.IndexByte(data[n:], lineEnd)
			if i < 0 {
				s.scanned += len(data)
				return len(data), false
			}
			n += i
		default:
			s.state = s.outside(c, s.scanned+n)
			n++
		}
	}
	s.scanned += n
	return n, false
}

// outside returns the state after a byte outside quotes that is no line end. Inside an unquoted cell it is not plain.
func (s *csvScan) outside(c byte, at int) scanState {
	switch {
	case s.state == afterReturn:
		return s.refuse(faultReturn)
	case c == s.separator:
		s.endCell(at)
		s.column++
		s.start = at + 1
		return atStart
	case c == '\r':
		s.endCell(at)
		return afterReturn
	case c == '\n':
		return s.refuse(faultFeed)
	case s.state == afterQuote && c == '"':
		return inQuotes
	case s.state == afterQuote:
		return s.refuse(faultText)
	case s.state == atStart && c == '"':
		return inQuotes
	}
	return s.refuse(faultQuote)
}

// endCell appends the cell that ends before a byte, unless a CR or a fault has ended it already.
func (s *csvScan) endCell(at int) {
	if s.state != afterReturn && s.state != inFault && len(s.cells) <= columnsMax {
		s.cells = append(s.cells, span{s.start, at})
	}
}

// endOfInput ends a row without a line end.
func (s *csvScan) endOfInput() {
	if s.state == inQuotes {
		s.state = s.refuse(faultOpen)
	}
	s.endCell(s.scanned)
}

func (s *csvScan) refuse(fault string) scanState {
	name := ""
	if s.column <= len(s.header) {
		name = " (" + shown(s.header[s.column-1]) + ")"
	}
	s.fault = fmt.Errorf("column %d%s %s", s.column, name, fault)
	return inFault
}

// emptyFrom reports whether a cell of a row without a fault, and every cell after it, is empty.
func (s *csvScan) emptyFrom(row []byte, cell int) bool {
	if len(s.cells) > columnsMax { // the others are unknown
		return false
	}
	for ; cell < len(s.cells); cell++ {
		if len(s.text(row, cell)) > 0 {
			return false
		}
	}
	return true
}

// text returns the text of a cell of a row without a fault. It may be a part of the row. A cell that the row lacks is
// empty: spreadsheets omit empty cells at the end.
func (s *csvScan) text(row []byte, cell int) []byte {
	if cell >= len(s.cells) {
		return nil
	}
	text := row[s.cells[cell].start:s.cells[cell].end]
	if len(text) == 0 || text[0] != '"' {
		return text
	}
	text = text[1 : len(text)-1]
	if bytes.IndexByte(text, '"') < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte(`""`), []byte(`"`))
}

// texts returns the texts of all cells of a row without a fault.
func (s *csvScan) texts(row []byte) (all []string) {
	for cell := range s.cells {
		all = append(all, string(s.text(row, cell)))
	}
	return all
}
