// Package ptytest provides pseudo-terminals for tests.
package ptytest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Columns is the width of a Terminal.
const Columns = 60

// Terminal is a pseudo-terminal.
type Terminal struct {
	Keys *os.File // the keyboard and the screen
	TTY  *os.File // the terminal of the programs

	read chan struct{} // closed when no program has TTY open
}

// New returns a terminal that writes to shown what programs write to TTY, with the echo of the keys. The caller closes
// it.
func New(shown io.Writer) (*Terminal, error) {
	keys, tty, err := Open()
	if err != nil {
		return nil, err
	}
	term := &Terminal{Keys: keys, TTY: tty, read: make(chan struct{})}
	go func() { // ends when no program has TTY open; Close waits for it
		defer close(term.read)
		_, _ = io.Copy(shown, keys)
	}()
	return term, nil
}

// Open opens both ends of a pseudo-terminal, which the caller closes.
func Open() (keys, tty *os.File, err error) {
	keys, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = keys.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	size := &unix.Winsize{Row: 24, Col: Columns}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, size); err != nil {
		_ = tty.Close()
		return nil, nil, err
	}
	return keys, tty, nil
}

// Close closes the terminal after the rest of its output. The programs on it must have ended.
func (term *Terminal) Close() {
	_ = term.TTY.Close() // an error: it is closed
	<-term.read
	_ = term.Keys.Close()
}

// Screen returns the final screen after all output, without trailing spaces. It supports line ends, CR and the sequence
// that erases a line; another control character is an error.
func Screen(output string) (string, error) {
	lines, column := [][]rune{nil}, 0
	for _, r := range strings.ReplaceAll(output, "\x1b[2K", "\v") {
		last := len(lines) - 1
		switch {
		case r == '\r':
			column = 0
		case r == '\n':
			lines = append(lines, []rune(strings.Repeat(" ", column)))
		case r == '\v':
			lines[last] = nil
		case r < ' ' || r == 0x7f:
			return "", fmt.Errorf("the terminal received %q in %q", r, output)
		default:
			if column == Columns { // a terminal wraps with the next character
				lines, column = append(lines, nil), 0
				last++
			}
			for len(lines[last]) <= column {
				lines[last] = append(lines[last], ' ')
			}
			lines[last][column] = r
			column++
		}
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return strings.TrimRight(text.String(), "\n") + "\n", nil
}
