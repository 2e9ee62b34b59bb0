package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A trigger captures the new plants of a source, and another one refuses plants when
// the source is read-only. A distributed database may not support triggers; a store has
// them only while it is a source, and after that until it is reopened.
//
// The engine disables a trigger by replacing the body of its function: that waits for
// no transaction that reads the table. Only enabling a trigger waits for the
// transactions that write, so that each of them is before or after it
// (https://www.postgresql.org/docs/current/explicit-locking.html).
type trigger struct {
	name       string // of the trigger and of its function
	function   string // the qualified name
	body       string // of the enabled trigger's function
	definition string // between CREATE TRIGGER name and EXECUTE FUNCTION
}

const (
	captureName = "plantstore_capture"
	refuseName  = "plantstore_refuse"
)

// noOpBody is the body of a disabled trigger's function.
const noOpBody = "BEGIN RETURN NULL; END"

// captureTrigger records the id of each new plant in the transaction that creates it,
// on every server.
func (e *Engine) captureTrigger() trigger {
	return trigger{
		name: captureName, function: e.qualified(captureName),
		body:       "BEGIN INSERT INTO " + e.qualified("plantstore_captured") + " SELECT id FROM created; RETURN NULL; END",
		definition: "AFTER INSERT ON plants REFERENCING NEW TABLE AS created FOR EACH STATEMENT",
	}
}

// refuseTrigger refuses every new plant.
func (e *Engine) refuseTrigger() trigger {
	return trigger{
		name: refuseName, function: e.qualified(refuseName),
		body:       "BEGIN RAISE EXCEPTION 'a move makes the store read-only' USING ERRCODE = '" + codeMoveState + "'; END",
		definition: "BEFORE INSERT ON plants FOR EACH STATEMENT",
	}
}

// replace creates the trigger's function, or replaces its body. The function runs
// with the rights of the role that creates a plant. If it ran with the
// rights of its owner, other roles could use these rights: the name of the transition
// table (created) cannot be qualified, so a role that attaches the function to another
// table could choose the table that it reads. No other role may attach it, either.
func (g trigger) replace(ctx context.Context, tx pgx.Tx, body string) error {
	_, err := tx.Exec(ctx, "CREATE OR REPLACE FUNCTION "+g.function+"() RETURNS trigger "+
		"LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp "+
		"AS '"+strings.ReplaceAll(body, "'", "''")+"'; "+
		"REVOKE EXECUTE ON FUNCTION "+g.function+"() FROM PUBLIC")
	return err
}

// grantCapture grants INSERT on the table plantstore_captured to every role that may create
// plants.
func (e *Engine) grantCapture(ctx context.Context, tx pgx.Tx) error {
	roles, err := collect(ctx, tx, pgx.RowTo[string], insertersSQL)
	if err != nil {
		return err
	}
	for _, role := range roles {
		if _, err := tx.Exec(ctx, "GRANT INSERT ON plantstore_captured TO "+role); err != nil {
			return err
		}
	}
	return nil
}

// insertersSQL reads the quoted names of the roles that may insert into plants or
// into a column of it.
const insertersSQL = `SELECT DISTINCT
	CASE grantee WHEN '0' THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_get_userbyid(grantee)) END
	FROM (SELECT relacl AS acl FROM pg_class WHERE oid = 'plants'::regclass::oid
	UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = 'plants'::regclass::oid) AS acls, aclexplode(acl)
	WHERE privilege_type = 'INSERT'`

// triggers returns the existing triggers of a move.
func (e *Engine) triggers(ctx context.Context, tx pgx.Tx) ([]trigger, error) {
	names, err := collect(ctx, tx, pgx.RowTo[string],
		"SELECT tgname::text FROM pg_trigger WHERE tgrelid = 'plants'::regclass::oid")
	missing := func(g trigger) bool { return !slices.Contains(names, g.name) }
	return slices.DeleteFunc([]trigger{e.captureTrigger(), e.refuseTrigger()}, missing), err
}

// enable creates or enables a trigger. Its caller has called lockPlants.
func (e *Engine) enable(ctx context.Context, tx pgx.Tx, g trigger) error {
	existing, err := e.triggers(ctx, tx)
	if err != nil {
		return err
	}
	if err := g.replace(ctx, tx, g.body); err != nil || slices.Contains(existing, g) {
		return err
	}
	// ALWAYS, because a role's default of session_replication_role may turn off other triggers.
	_, err = tx.Exec(ctx, "CREATE TRIGGER "+g.name+" "+g.definition+" EXECUTE FUNCTION "+g.function+"(); "+
		"ALTER TABLE plants ENABLE ALWAYS TRIGGER "+g.name)
	return err
}

// disableTriggers disables the existing triggers, and returns them.
func (e *Engine) disableTriggers(ctx context.Context, tx pgx.Tx) ([]trigger, error) {
	existing, err := e.triggers(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, g := range existing {
		if err := g.replace(ctx, tx, noOpBody); err != nil {
			return nil, err
		}
	}
	return existing, nil
}

// dropTriggers drops the existing triggers, which are disabled, and the captured ids. It leaves them if other
// transactions lock the table, or if a trigger of another role depends on a function: a disabled trigger is harmless.
func (e *Engine) dropTriggers(ctx context.Context) error {
	err := e.transact(ctx, func(tx pgx.Tx) error {
		existing, err := e.triggers(ctx, tx)
		if err != nil {
			return err
		}
		for _, g := range existing {
			sql := lockTimeout + "DROP TRIGGER " + g.name + " ON plants; DROP FUNCTION " + g.function + "()"
			if g.name == captureName {
				sql += "; DROP TABLE plantstore_captured"
			}
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if hasCode(err, codeLockNotAvailable) || hasCode(err, codeDependentObjects) {
		return nil
	}
	return err
}
