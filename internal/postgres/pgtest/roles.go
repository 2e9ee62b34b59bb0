package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Roles are the two roles of a store that docs/how-to/grant-postgresql-rights.md describes, with no
// right but those that it grants. Each is the URL of the database for its role.
type Roles struct{ Owner, Server string }

// block is SQL on a page of the docs.
var block = regexp.MustCompile("(?s)\n```sql\n(.*?)```\n")

// Roles creates a database and its roles with the SQL on the page of that path.
// create creates the tables, given the owner's URL.
func (s *Server) Roles(ctx context.Context, page string, create func(owner string) error) (r Roles, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return r, err
	}
	blocks := block.FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		return r, fmt.Errorf("%s has %d blocks of SQL, want the roles and the grants", page, len(blocks))
	}
	name := fmt.Sprint("test", s.made.Add(1))
	own := strings.NewReplacer("plants_owner", "owner_"+name, "plants_server", "server_"+name, "DATABASE plants", "DATABASE "+name)
	cluster, database, found := strings.Cut(own.Replace(string(blocks[0][1])), "\\connect plants\n")
	if !found {
		return r, fmt.Errorf("%s connects to no database", page)
	}
	as := func(role string) string {
		return strings.Replace(s.url(name), "//postgres@", "//"+role+"_"+name+"@", 1)
	}
	r = Roles{Owner: as("owner"), Server: as("server")}
	for statement := range strings.Lines(cluster) { // CREATE DATABASE has to be alone
		if err := execute(ctx, s.url("postgres"), statement); err != nil {
			return r, err
		}
	}
	if err := execute(ctx, s.url(name), database); err != nil {
		return r, err
	}
	if err := create(r.Owner); err != nil {
		return r, err
	}
	return r, execute(ctx, r.Owner, own.Replace(string(blocks[1][1])))
}

func execute(ctx context.Context, url, sql string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql)
	return errors.Join(err, c.Close(ctx))
}
