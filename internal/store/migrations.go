package store

import "io/fs"

// Migrations returns the names of an engine's files migrations/*.sql, in the order
// of the numbers that they begin with. The number of files is the newest schema.
func Migrations(files fs.FS) []string {
	names, err := fs.Glob(files, "migrations/*.sql") // sorts by name
	if err != nil {
		panic(err) // the pattern is malformed
	}
	return names
}
