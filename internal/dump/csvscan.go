package dump

import (
	"bytes"
	"fmt"
)

// What can be wrong with the form of a cell; columnFault adds the column.
const (
	faultQuote  = "has a quote inside a cell without quotes: put the cell in quotes and double those inside"
	faultText   = "has text behind its closing quote: double the quotes inside a cell"
	faultReturn = "has a carriage return that ends no line: put the cell in quotes"
	faultOpen   = "opens a quote that is never closed"
)

func columnFault(column int, what string) error {
	return fmt.Errorf("column %d %s", column, what)
}

// rowScan reads one row byte by byte, with quotes as in RFC 4180. It can stop
// after any byte and go on when there are more.
//
// A row ends at the first line end outside quotes. From a fault on nothing is
// in quotes, so the row ends at the next line end and one bad row costs no
// more than itself.
type rowScan struct {
	state  scanState
	pos    int   // how many of the unread bytes were read
	lines  int64 // how many line ends were read
	column int   // of the present cell, from 1
	start  int   // of the present cell
	double bool  // the present cell has doubled quotes
	cells  []cellSpan
	fault  error
}

type scanState int

const (
	atStart     scanState = iota // of a cell
	inPlain                      // within a cell without quotes
	inQuotes                     // within quotes
	afterQuote                   // after a quote that closes the cell, unless another follows
	afterReturn                  // after a CR outside quotes; the cell has ended before it
	inFault                      // after a fault
)

// cellSpan is where a cell stands in its row, with its quotes. It means
// nothing in a row of which a part was discarded.
type cellSpan struct {
	start, end      int
	quoted, doubled bool
}

func (s *rowScan) reset() { *s = rowScan{column: 1, cells: s.cells[:0]} }

// scan reads on in data, of which it has read pos bytes. It returns true after
// the line end that ends the row, and false if data ends before.
func (s *rowScan) scan(data []byte) bool {
	for s.pos < len(data) {
		if s.state == inQuotes {
			s.quotes(data[s.pos:])
			continue
		}
		c := data[s.pos]
		if c == '\n' {
			s.endCell()
			s.pos++
			s.lines++
			return true
		}
		s.state = s.outside(c)
		s.pos++
	}
	return false
}

// quotes reads within quotes, up to the next one or the end of data.
func (s *rowScan) quotes(data []byte) {
	n := len(data)
	if i := bytes.IndexByte(data, '"'); i >= 0 {
		n = i + 1
		s.state = afterQuote
	}
	s.lines += int64(bytes.Count(data[:n], []byte{'\n'}))
	s.pos += n
}

// outside reads one byte outside quotes that is no LF, and returns the state
// after it.
func (s *rowScan) outside(c byte) scanState {
	switch {
	case s.state == inFault:
		return inFault
	case s.state == afterReturn:
		return s.refuse(faultReturn)
	case c == ',':
		s.endCell()
		s.column++
		s.start = s.pos + 1
		return atStart
	case c == '\r':
		s.endCell()
		return afterReturn
	case s.state == afterQuote && c == '"':
		s.double = true
		return inQuotes
	case s.state == afterQuote:
		return s.refuse(faultText)
	case s.state == atStart && c == '"':
		return inQuotes
	case c == '"':
		return s.refuse(faultQuote)
	}
	return inPlain
}

// endCell notes the cell that ends before pos, if it has not ended yet.
func (s *rowScan) endCell() {
	if s.state == afterReturn || s.state == inFault {
		return
	}
	if len(s.cells) <= columnsMax {
		s.cells = append(s.cells, cellSpan{s.start, s.pos, s.state == afterQuote, s.double})
	}
	s.double = false
}

// endOfInput ends a row that has no line end.
func (s *rowScan) endOfInput() {
	if s.state == inQuotes {
		s.state = s.refuse(faultOpen)
	}
	s.endCell()
}

func (s *rowScan) refuse(what string) scanState {
	s.fault = columnFault(s.column, what)
	return inFault
}
