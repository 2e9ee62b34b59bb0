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

// Roles are the owner and the server role that docs/how-to/grant-postgresql-rights.md creates, with only the rights
// that the page grants. Each is the URL of the store for its role.
type Roles struct {
	Owner, Server string

	server *Server
	grants string // to the server role, with the schema plantstore
}

// sqlBlock is a block of SQL on a page of the docs.
var sqlBlock = regexp.MustCompile("(?s)\n```sql[^\n]*\n(.*?)```\n")

// Roles creates a database, its roles and its schema with the SQL of the page at that path. create creates the tables,
// given the owner's URL.
func (s *Server) Roles(ctx context.Context, page string, create func(owner string) error) (Roles, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return Roles{}, err
	}
	blocks := sqlBlock.FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		return Roles{}, fmt.Errorf("%s has %d blocks of SQL, want the roles and the grants", page, len(blocks))
	}
	name := s.nextName()
	renamed := strings.NewReplacer(
		"plants_owner", "owner_"+name, "plants_server", "server_"+name, "DATABASE plants", "DATABASE "+name)
	cluster, database, found := strings.Cut(renamed.Replace(string(blocks[0][1])), "\\connect plants\n")
	if !found {
		return Roles{}, fmt.Errorf("%s connects to no database", page)
	}
	for statement := range strings.Lines(cluster) { // CREATE DATABASE cannot run in a transaction with others
		if err := execute(ctx, s.url("postgres"), statement); err != nil {
			return Roles{}, err
		}
	}
	if err := execute(ctx, s.url(name), database); err != nil {
		return Roles{}, err
	}
	as := func(role string) string {
		return strings.Replace(s.url(name), "//postgres@", "//"+role+"_"+name+"@", 1)
	}
	r := Roles{Owner: as("owner"), Server: as("server"), server: s, grants: renamed.Replace(string(blocks[1][1]))}
	if err := create(r.Owner); err != nil {
		return Roles{}, err
	}
	return r, execute(ctx, r.Owner, r.grants)
}

// Schema returns the same roles with another schema of their database. That needs a small part of the time that a new
// database needs.
func (r Roles) Schema(ctx context.Context, create func(owner string) error) (Roles, error) {
	name := r.server.nextName()
	if err := execute(ctx, r.Owner, "CREATE SCHEMA "+name); err != nil {
		return Roles{}, err
	}
	r.Owner = inSchema(r.Owner, name)
	r.Server = inSchema(r.Server, name)
	if err := create(r.Owner); err != nil {
		return Roles{}, err
	}
	return r, execute(ctx, r.Owner, strings.Replace(r.grants, "SCHEMA plantstore ", "SCHEMA "+name+" ", 1))
}

// inSchema returns the URL of a database with that schema as its search_path.
func inSchema(url, schema string) string { return url + "&search_path=" + schema }

func execute(ctx context.Context, url, sql string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql)
	return errors.Join(err, c.Close(ctx))
}
