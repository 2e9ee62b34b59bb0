package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/store"
)

// A trigger, a rule or row-level security on a table changes the effect of our
// statements, and without a constraint, an id is stored twice, all without an error.
// So Open compares the tables with those that the migrations create. Indexes that are
// no constraint belong to the database administrator.

// fact is a property of one of our tables, from PostgreSQL's catalogue.
type fact struct{ kind, table, name, detail string }

func (f fact) String() string {
	switch f.kind {
	case "table":
		return "table " + f.table
	case "column":
		return "column " + f.table + "." + f.name
	case "constraint":
		return constraintKinds[f.detail] + " on " + f.table + "." + f.name
	case "row-level security":
		return f.kind + " on " + f.table
	default:
		return fmt.Sprintf("%s %q on %s", f.kind, f.name, f.table)
	}
}

// sameName reports whether both facts are about the same object.
func (f fact) sameName(g fact) bool {
	return f.kind == g.kind && f.table == g.table && f.name == g.name
}

// constraintKinds are the names of pg_constraint.contype
// (https://www.postgresql.org/docs/current/catalog-pg-constraint.html).
var constraintKinds = map[string]string{
	"p": "primary key", "u": "unique constraint", "c": "check constraint", "f": "foreign key", "x": "exclusion constraint",
}

// expectedFacts are the facts that each schema adds, from schema 1 on. The detail of a
// table is pg_class.relkind. The name of a constraint is its column, and its detail is
// pg_constraint.contype.
var expectedFacts = [][]fact{{
	{"table", "plants", "", "r"},
	{"column", "plants", "id", "bigint NOT NULL"},
	{"column", "plants", "name", "text NOT NULL"},
	{"column", "plants", "tag", "text"},
	{"column", "plants", "created_at", "timestamp with time zone NOT NULL"},
	{"column", "plants", "created_by", "bigint NOT NULL"},
	{"constraint", "plants", "id", "p"},

	{"table", "tokens", "", "r"},
	{"column", "tokens", "id", "bigint NOT NULL"},
	{"column", "tokens", "kind", "text"},
	{"column", "tokens", "name", "text NOT NULL"},
	{"column", "tokens", "hash", "bytea NOT NULL"},
	{"column", "tokens", "prefix", "text"},
	{"column", "tokens", "issuer", "text"},
	{"column", "tokens", "identifier", "text"},
	{"column", "tokens", "scopes", "text NOT NULL"},
	{"column", "tokens", "created_at", "timestamp with time zone NOT NULL"},
	{"column", "tokens", "expires_at", "timestamp with time zone"},
	{"column", "tokens", "last_used_at", "timestamp with time zone"},
	{"column", "tokens", "revoked_at", "timestamp with time zone"},
	{"constraint", "tokens", "id", "p"},
	{"constraint", "tokens", "hash", "u"},

	{"table", "plantstore", "", "r"},
	{"column", "plantstore", "one", "boolean NOT NULL"},
	{"column", "plantstore", "version", "bigint NOT NULL"},
	{"column", "plantstore", "token_changes", "bigint NOT NULL"},
	{"column", "plantstore", "held", "text"},
	{"column", "plantstore", "webhooks", "boolean"},
	{"column", "plantstore", "audit_sequence", "bigint"},
	{"column", "plantstore", "audit_hash", "bytea"},
	{"column", "plantstore", "pruned_sequence", "bigint"},
	{"column", "plantstore", "pruned_hash", "bytea"},
	{"constraint", "plantstore", "one", "p"},
	{"constraint", "plantstore", "one", "c"},

	{"table", "plantstore_audit", "", "r"},
	{"column", "plantstore_audit", "sequence", "bigint NOT NULL"},
	{"column", "plantstore_audit", "entry", "text NOT NULL"},
	{"column", "plantstore_audit", "previous", "bytea NOT NULL"},
	{"column", "plantstore_audit", "hash", "bytea NOT NULL"},
	{"constraint", "plantstore_audit", "sequence", "p"},

	{"table", "plantstore_acme", "", "r"},
	{"column", "plantstore_acme", "key", "text NOT NULL"},
	{"column", "plantstore_acme", "value", "bytea NOT NULL"},
	{"constraint", "plantstore_acme", "key", "p"},

	{"table", "plantstore_webhooks", "", "r"},
	{"column", "plantstore_webhooks", "id", "bigint NOT NULL"},
	{"column", "plantstore_webhooks", "url", "text NOT NULL"},
	{"column", "plantstore_webhooks", "active", "boolean NOT NULL"},
	{"constraint", "plantstore_webhooks", "id", "p"},
	{"constraint", "plantstore_webhooks", "url", "u"},

	{"table", "plantstore_outbox", "", "r"},
	{"column", "plantstore_outbox", "created_at", "timestamp with time zone NOT NULL"},
	{"column", "plantstore_outbox", "plant", "bigint NOT NULL"},
	{"constraint", "plantstore_outbox", "created_at", "p"},
	{"constraint", "plantstore_outbox", "plant", "p"},

	{"table", "plantstore_deliveries", "", "r"},
	{"column", "plantstore_deliveries", "webhook", "bigint NOT NULL"},
	{"column", "plantstore_deliveries", "plant", "bigint NOT NULL"},
	{"column", "plantstore_deliveries", "since", "timestamp with time zone NOT NULL"},
	{"column", "plantstore_deliveries", "due_at", "timestamp with time zone"},
	{"column", "plantstore_deliveries", "dead_at", "timestamp with time zone"},
	{"column", "plantstore_deliveries", "attempts", "bigint NOT NULL"},
	{"column", "plantstore_deliveries", "reason", "text"},
	{"constraint", "plantstore_deliveries", "webhook", "p"},
	{"constraint", "plantstore_deliveries", "plant", "p"},
}}

// factsSQL reads the facts and their schema's version in one statement: another server
// may migrate the store. The detail of a trigger has four parts: its state, whether its
// function is in the schema of the tables, and the function's name and body.
const factsSQL = `WITH ours AS (
	SELECT pg_class.oid, relname::text AS tab, relkind::text AS kind, relrowsecurity, relnamespace
	FROM pg_class INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace
	WHERE nspname = current_schema()
	AND relname IN ('plants', 'tokens', 'plantstore', 'plantstore_audit', 'plantstore_acme',
		'plantstore_webhooks', 'plantstore_outbox', 'plantstore_deliveries'))
	SELECT 'version', '', '', version::text FROM plantstore
	UNION ALL SELECT 'table', tab, '', kind FROM ours
	UNION ALL SELECT 'row-level security', tab, '', '' FROM ours WHERE relrowsecurity
	UNION ALL SELECT 'column', tab, attname::text,
		pg_catalog.concat(format_type(atttypid, atttypmod),
		CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END, CASE WHEN atthasdef THEN ' DEFAULT' ELSE '' END)
	FROM ours INNER JOIN pg_attribute ON attrelid = ours.oid WHERE attnum > 0 AND NOT attisdropped
	UNION ALL SELECT 'constraint', tab, coalesce(attname::text, conname::text), contype::text
	FROM ours INNER JOIN pg_constraint ON conrelid = ours.oid
	LEFT JOIN pg_attribute ON attrelid = ours.oid AND attnum = ANY (conkey)
	WHERE contype IN ('p', 'u', 'c', 'f', 'x')
	UNION ALL SELECT 'rule', tab, rulename::text, '' FROM ours INNER JOIN pg_rewrite ON ev_class = ours.oid
	UNION ALL SELECT 'trigger', tab, tgname::text,
		pg_catalog.concat(tgenabled::text, ' ', (pronamespace = relnamespace)::text, ' ', proname::text, ' ', prosrc)
	FROM ours INNER JOIN pg_trigger ON tgrelid = ours.oid
	INNER JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal`

// checkSchema refuses tables that differ from those of their schema's version.
func (e *Engine) checkSchema(ctx context.Context, q querier) error {
	rows, _ := q.Query(ctx, factsSQL) // CollectRows returns the error
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (f fact, err error) {
		err = r.Scan(&f.kind, &f.table, &f.name, &f.detail)
		return f, err
	})
	if err != nil {
		return err
	}
	version, others := 0, found[:0]
	for _, f := range found {
		switch {
		case f.kind == "version":
			if version, err = strconv.Atoi(f.detail); err != nil {
				return err
			}
		case f.kind == "trigger" && e.isMoveTrigger(f):
		case f == fact{"table", f.table, "", "p"}: // partitioned by its administrator
			others = append(others, fact{"table", f.table, "", "r"})
		default:
			others = append(others, f)
		}
	}
	faults := compareFacts(version, others)
	if len(faults) == 0 {
		return nil
	}
	const faultsMax = 5
	if more := len(faults) - faultsMax; more > 0 {
		faults = append(faults[:faultsMax], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("%w: its tables are not those of schema %d of Plant Store: %s; "+
		"undo the change as the owner of the tables, or restore a backup",
		store.ErrBroken, version, strings.Join(faults, ", "))
}

// compareFacts returns the differences from a version's schema, for a person.
func compareFacts(version int, found []fact) (faults []string) {
	all := slices.Concat(expectedFacts[:min(version, len(expectedFacts))]...) // a newer program may have migrated it
	for _, want := range all {
		if slices.Contains(found, want) {
			continue
		}
		same := slices.IndexFunc(found, want.sameName)
		if same < 0 || want.kind == "constraint" {
			faults = append(faults, fmt.Sprintf("%v is missing", want))
			continue
		}
		faults = append(faults, fmt.Sprintf("%v is %q, want %q", want, found[same].detail, want.detail))
	}
	for _, f := range found {
		expected := slices.ContainsFunc(all, func(want fact) bool {
			return want.sameName(f) && (f.kind != "constraint" || want.detail == f.detail)
		})
		if !expected {
			faults = append(faults, fmt.Sprintf("%v is not part of it", f))
		}
	}
	return faults
}

// isMoveTrigger reports whether a trigger belongs to a move.
func (e *Engine) isMoveTrigger(f fact) bool {
	capture, refuse := e.captureTrigger(), e.refuseTrigger()
	bodies := map[string][]string{
		capture.name: {capture.body, noOpBody},
		refuse.name:  {refuse.body, noOpBody},
	}
	return f.table == "plants" && slices.ContainsFunc(bodies[f.name], func(body string) bool {
		return f.detail == "O true plantstore_"+f.name+" "+body
	})
}
