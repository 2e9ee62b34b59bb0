package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"plantstore/internal/postgres"
	"plantstore/internal/store"
)

// TestSchemaIsChecked shows that Open refuses tables that differ from their schema, and
// names the object that differs.
func TestSchemaIsChecked(t *testing.T) {
	t.Parallel()
	const function = "CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
	for _, test := range []struct{ name, sql, want string }{
		{
			"a trigger that drops rows",
			function + "CREATE TRIGGER evil BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION evil()",
			`trigger "evil" on plants is not part of it`,
		},
		{
			"a trigger with the name of a move's",
			function + "CREATE TRIGGER follow BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION evil()",
			`trigger "follow" on plants is not part of it`,
		},
		{
			"a trigger with the names of a move's", strings.ReplaceAll(function, "evil", "plantstore_hold") +
				"CREATE TRIGGER hold BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION plantstore_hold()",
			`trigger "hold" on tokens is not part of it`,
		},
		{"a rule", "CREATE RULE evil AS ON INSERT TO plants DO INSTEAD NOTHING", `rule "evil" on plants is not part of it`},
		{
			"row-level security", "ALTER TABLE tokens ENABLE ROW LEVEL SECURITY",
			"row-level security on tokens is not part of it",
		},
		{"no primary key", "ALTER TABLE plants DROP CONSTRAINT plants_pkey", "primary key on plants.id is missing"},
		{
			"another primary key", "ALTER TABLE plants DROP CONSTRAINT plants_pkey, ADD PRIMARY KEY (id, name)",
			"primary key on plants.name is not part of it",
		},
		{
			"no unique hash", "ALTER TABLE tokens DROP CONSTRAINT tokens_hash_key",
			"unique constraint on tokens.hash is missing",
		},
		{"a unique name", "ALTER TABLE plants ADD UNIQUE (name)", "unique constraint on plants.name is not part of it"},
		{"a check", "ALTER TABLE plants ADD CHECK (id > 0)", "check constraint on plants.id is not part of it"},
		{
			"a foreign key", "ALTER TABLE plants ADD FOREIGN KEY (created_by) REFERENCES tokens",
			"foreign key on plants.created_by is not part of it",
		},
		{"a column too many", "ALTER TABLE plants ADD height int", "column plants.height is not part of it"},
		{"a column too few", "ALTER TABLE tokens DROP expires_at", "column tokens.expires_at is missing"},
		{
			"a type", "ALTER TABLE plants ALTER name TYPE varchar(20)",
			`column plants.name is "character varying(20) NOT NULL", want "text NOT NULL"`,
		},
		{
			"a default", "ALTER TABLE tokens ALTER revoked_at SET DEFAULT now()",
			`column tokens.revoked_at is "timestamp with time zone DEFAULT", want "timestamp with time zone"`,
		},
		{
			"NULL", "ALTER TABLE plants ALTER created_at DROP NOT NULL",
			`column plants.created_at is "timestamp with time zone", want "timestamp with time zone NOT NULL"`,
		},
		{"a view", "ALTER TABLE plants RENAME TO p; CREATE VIEW plants AS SELECT * FROM p", `table plants is "v", want "r"`},
		{"no table", "DROP TABLE tokens", "table tokens is missing"},
		{"an index", "CREATE INDEX ON plants (tag)", ""}, // allowed: it belongs to the administrator
		{"another table", "CREATE TABLE mine (id bigint REFERENCES plants)", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := schema(t)
			if err := place(url).Open(t).Close(); err != nil {
				t.Fatal(err)
			}
			execute(t, url, test.sql)
			for _, c := range []postgres.Config{{Server: true, Migrate: true}, {MustExist: true}} {
				c.URL = url
				e, err := postgres.Open(t.Context(), c)
				if err == nil {
					_ = e.Close()
				}
				switch {
				case test.want == "" && err != nil:
					t.Errorf("%+v: %v", c, err)
				case test.want != "" && (!errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), test.want)):
					t.Errorf("%+v:\ngot  %v\nwant %s", c, err, test.want)
				}
			}
		})
	}
}

// TestDisabledTrigger shows that Open refuses a moved store whose trigger an
// administrator has disabled.
func TestDisabledTrigger(t *testing.T) {
	t.Parallel()
	url := database(t)
	e := place(url).Open(t)
	moved := store.MoveState{Phase: store.Moved, Other: "another"}
	err := errors.Join(e.SetMoveState(t.Context(), store.MoveState{}, moved), e.Close(), place(url).Open(t).Close())
	if err != nil {
		t.Fatal(err)
	}
	execute(t, url, "ALTER TABLE plants DISABLE TRIGGER hold")
	_, err = postgres.Open(t.Context(), postgres.Config{URL: url})
	if want := `trigger "hold" on plants is not part of it`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
