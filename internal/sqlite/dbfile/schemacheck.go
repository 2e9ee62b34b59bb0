package dbfile

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Views, triggers, generated columns and expressions in indexes are code in a file: they run with the statements that
// use them. So every open compares the schema with the schema of the migrations before it reads a table.

// object is a row of sqlite_schema. SQLite refuses a row that contradicts its sql
// (https://sqlite.org/fileformat2.html#storage_of_the_sql_database_schema).
type object struct {
	kind, name, table string
	sql               string // as SQLite stores it; empty for the index of a constraint
	root              int64  // the first page; 0 for an object without pages
}

func (o object) String() string {
	if o.table == o.name {
		return fmt.Sprintf("%s %q", o.kind, o.name)
	}
	return fmt.Sprintf("%s %q on %q", o.kind, o.name, o.table)
}

// objectsMax limits the number of objects. A store has fifteen, and other programs add a few.
const objectsMax = 1000

// objects returns the rows of sqlite_schema. Reading them runs no code of the file.
func objects(c *sqlite3.Conn) ([]object, error) {
	const sqlMax = 16 << 10 // several times the longest sql of a store
	const sql = "SELECT type, name, tbl_name, substr(coalesce(sql, ''), 1, ?), rootpage FROM sqlite_schema LIMIT ?"
	return sqlite3.Collect(c.Rows(sql, sqlMax, objectsMax+1), func(s *sqlite3.Stmt) object {
		return object{s.Text(0), s.Text(1), s.Text(2), s.Text(3), s.Int64(4)}
	})
}

// expectedSchemas is createExpected, once.
var expectedSchemas = sync.OnceValues(createExpected)

// createExpected returns the schema that the migrations create, by the number of applied ones, from 0. It creates a
// store of each version in memory.
func createExpected() (versions [][]object, err error) {
	c, err := sqlite3.Open(":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	versions = [][]object{nil}
	for version := range NewestSchema() {
		if err := apply(c, version); err != nil {
			return nil, err
		}
		all, err := objects(c)
		if err != nil {
			return nil, err
		}
		versions = append(versions, all)
	}
	return versions, nil
}

// find returns the object with the kind and name of o, or nil.
func find(all []object, o object) *object {
	i := slices.IndexFunc(all, func(a object) bool { return a.kind == o.kind && a.name == o.name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// SchemaFaults compares the schema of a store with the schema of its version, and describes the differences. Ordinary
// tables of other programs and their indexes are allowed, because tools that copy the store add them, but not if they
// contain code.
func SchemaFaults(c *sqlite3.Conn, version int) ([]string, error) {
	versions, err := expectedSchemas()
	if err != nil {
		return nil, err
	}
	found, err := objects(c)
	if err != nil {
		return nil, err
	}
	if len(found) > objectsMax {
		return []string{fmt.Sprintf("it has more than %d tables and indexes", objectsMax)}, nil
	}
	want := versions[version]
	var faults []string
	for _, w := range want {
		switch got := find(found, w); {
		case got == nil:
			faults = append(faults, fmt.Sprintf("%s %q is missing", w.kind, w.name))
		case got.sql != w.sql || got.table != w.table:
			faults = append(faults,
				fmt.Sprintf("%s %q differs from the schema: %s", w.kind, w.name, difference(w.sql, got.sql)))
		}
	}
	for _, o := range found {
		if find(want, o) != nil {
			continue
		}
		if fault := o.foreignFault(want); fault != "" {
			faults = append(faults, fault)
		}
	}
	if len(faults) > 0 {
		return faults, nil // the queries below could run a view
	}
	for _, q := range []struct{ sql, fault string }{
		{`SELECT DISTINCT m.name FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS x
			WHERE m.type = 'table' AND x.hidden <> 0`, "table %q has a generated column"},
		{`SELECT DISTINCT i.name FROM sqlite_schema AS m, pragma_index_list(m.name) AS i, pragma_index_xinfo(i.name) AS x
			WHERE m.type = 'table' AND (i.partial OR x.cid = -2)`, "index %q has an expression"},
	} {
		for s, err := range c.Rows(q.sql) {
			if err != nil {
				return nil, err
			}
			faults = append(faults, fmt.Sprintf(q.fault, s.Text(0)))
		}
	}
	return faults, nil
}

// CheckSchema returns an error with the first difference that SchemaFaults finds.
func CheckSchema(c *sqlite3.Conn, path string, version int) error {
	faults, err := SchemaFaults(c, version)
	if err != nil || len(faults) == 0 {
		return err
	}
	return fmt.Errorf("%w: the schema of %s is not schema %d of Plant Store: %s; "+
		"undo the change with the tool that made it, or restore a backup",
		store.ErrBroken, path, version, faults[0])
}

// foreignFault describes an object that is not part of the schema. It returns "" for an ordinary table or an index of
// one.
func (o object) foreignFault(schema []object) string {
	onOurTable := slices.ContainsFunc(schema, func(w object) bool { return w.table == o.table })
	switch {
	case o.kind == "table" && o.root > 0, o.kind == "index" && !onOurTable:
		return ""
	case o.kind == "table":
		return fmt.Sprintf("%v is not an ordinary table", o)
	}
	return fmt.Sprintf("%v is not part of it", o)
}

// difference returns the first difference of two definitions, with the text before it.
func difference(want, got string) string {
	const before = 20
	first := 0
	for first < min(len(want), len(got)) && want[first] == got[first] {
		first++
	}
	from := max(0, first-before)
	return fmt.Sprintf("want %.80q, got %.80q", want[from:], got[from:])
}
