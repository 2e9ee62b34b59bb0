package config

import "fmt"

// UsageError is an error in a command line, a variable or the settings file.
type UsageError struct{ error }

func (e *UsageError) Unwrap() error { return e.error }

// Usagef returns a usage error with a message.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}
