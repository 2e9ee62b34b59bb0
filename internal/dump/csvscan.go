package dump

import (
	"bytes"
	"fmt"
)

// The faults of a cell; columnFault adds the column.
const (
	faultQuote  = "has a quote inside an unquoted cell; quote the cell and double each quote inside it"
	faultText   = "has text after the closing quote; double each quote inside a cell"
	faultReturn = "has a carriage return inside an unquoted cell; quote the cell"
	faultOpen   = "has an opening quote without a closing quote"
)

func columnFault(column int, fault string) error {
	return fmt.Errorf("column %d %s", column, fault)
}

// rowScan scans one row byte by byte, with quotes as in RFC 4180. It can stop
// after any byte and continue with more data.
//
// A row ends at the first line end outside quotes. After a fault, quotes have
// no meaning: the row ends at the next line end, so a bad row does not extend
// into the next one.
type rowScan struct {
	state  scanState
	pos    int   // number of scanned bytes of the window
	lines  int64 // number of scanned line ends
	column int   // of the current cell, from 1
	start  int   // of the current cell
	double bool  // the current cell has doubled quotes
	cells  []cellSpan
	fault  error
}

type scanState int

const (
	atStart     scanState = iota // of a cell
	inPlain                      // inside an unquoted cell
	inQuotes                     // inside quotes
	afterQuote                   // after a quote that closes the cell, unless another quote follows
	afterReturn                  // after a CR outside quotes; the cell has ended before it
	inFault                      // after a fault
)

// cellSpan is the position of a cell in its row, quotes included. It is invalid
// after a discard of a part of the row.
type cellSpan struct {
	start, end      int
	quoted, doubled bool
}

func (s *rowScan) reset() { *s = rowScan{column: 1, cells: s.cells[:0]} }

// scan continues at byte pos of data. It returns true after the line end that
// ends the row, and false if data ends first.
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

// quotes scans inside quotes, up to the next quote or the end of data.
func (s *rowScan) quotes(data []byte) {
	n := len(data)
	if i := bytes.IndexByte(data, '"'); i >= 0 {
		n = i + 1
		s.state = afterQuote
	}
	s.lines += int64(bytes.Count(data[:n], []byte{'\n'}))
	s.pos += n
}

// outside returns the state after one byte outside quotes that is not LF.
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

// endCell appends the cell that ends before pos, unless a CR or a fault has
// ended it already.
func (s *rowScan) endCell() {
	if s.state == afterReturn || s.state == inFault {
		return
	}
	if len(s.cells) <= columnsMax {
		s.cells = append(s.cells, cellSpan{s.start, s.pos, s.state == afterQuote, s.double})
	}
	s.double = false
}

// endOfInput ends a row without a line end.
func (s *rowScan) endOfInput() {
	if s.state == inQuotes {
		s.state = s.refuse(faultOpen)
	}
	s.endCell()
}

func (s *rowScan) refuse(fault string) scanState {
	s.fault = columnFault(s.column, fault)
	return inFault
}
