package store

import "io/fs"

// Migration creates a schema of an engine from the schema before.
type Migration struct {
	File string // its name, for errors
	SQL  string
}

// Migrations returns the files migrations/*.sql of an engine, in the order of the numbers that they begin with. The
// number of files is the newest schema.
func Migrations(files fs.FS) (all []Migration) {
	names, err := fs.Glob(files, "migrations/*.sql") // sorts by name
	if err != nil {
		panic(err) // the pattern is malformed
	}
	for _, name := range names {
		sql, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err) // the files are part of the program
		}
		all = append(all, Migration{File: name, SQL: string(sql)})
	}
	return all
}
