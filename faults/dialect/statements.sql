-- Every statement of the PostgreSQL engine.
-- go test ./internal/postgres -run TestSQL -update writes it.

-- Serving

ALTER TABLE plantstore ADD COLUMN held text;
ALTER TABLE tokens ADD COLUMN kind text; ALTER TABLE tokens ADD COLUMN issuer text; ALTER TABLE tokens ADD COLUMN identifier text;
ALTER TABLE tokens ADD COLUMN prefix text;
CREATE TABLE plants ( id bigint PRIMARY KEY, name text NOT NULL, tag text, created_at timestamptz NOT NULL, created_by bigint NOT NULL ); CREATE TABLE tokens ( id bigint PRIMARY KEY, name text NOT NULL, hash bytea NOT NULL UNIQUE, scopes text NOT NULL, created_at timestamptz NOT NULL, expires_at timestamptz, last_used_at timestamptz, revoked_at timestamptz ); CREATE TABLE plantstore ( one boolean PRIMARY KEY CHECK (one), version bigint NOT NULL, token_changes bigint NOT NULL ); INSERT INTO plantstore VALUES (true, 0, 0);
CREATE TABLE plantstore_acme ( key text PRIMARY KEY, value bytea NOT NULL );
CREATE TABLE plantstore_audit ( sequence bigint PRIMARY KEY, entry text NOT NULL, previous bytea NOT NULL, hash bytea NOT NULL ); ALTER TABLE plantstore ADD COLUMN audit_sequence bigint; ALTER TABLE plantstore ADD COLUMN audit_hash bytea; ALTER TABLE plantstore ADD COLUMN pruned_sequence bigint; ALTER TABLE plantstore ADD COLUMN pruned_hash bytea;
DELETE FROM plantstore_acme WHERE key = $1
DELETE FROM plantstore_audit WHERE sequence <= $1
DELETE FROM tokens WHERE kind = $1 AND $2 > expires_at AND hash <> $3 AND (SELECT max(id) FROM tokens) > id
INSERT INTO plants (id, name, tag, created_at, created_by) SELECT id, name, tag, created_at, created_by FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[]) AS new (id, name, tag, created_at, created_by) ORDER BY id ON CONFLICT (id) DO NOTHING RETURNING id
INSERT INTO plantstore_acme (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value
INSERT INTO plantstore_audit (sequence, entry, previous, hash) VALUES ($1, $2, $3, $4)
INSERT INTO tokens (id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at
INSERT INTO tokens (id, name, hash, scopes, created_at, expires_at, revoked_at, prefix, kind, issuer, identifier) SELECT coalesce(max(id), 0) + 1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 FROM tokens RETURNING id
SELECT CASE WHEN (SELECT max(id) FROM tokens) >= $3 THEN (SELECT count(id) FROM tokens WHERE kind = $1 AND coalesce(expires_at >= $2, true)) ELSE 0 END
SELECT EXISTS (SELECT 1 FROM plantstore_audit WHERE sequence = $1 AND hash = $2)
SELECT EXISTS (SELECT proname::text, prosrc, pg_get_userbyid(proowner)::text, pg_get_userbyid(proowner) = current_user FROM pg_proc INNER JOIN pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname = current_schema() AND proname IN ('plantstore_follow', 'plantstore_hold') AND prosecdef)
SELECT NOT EXISTS (SELECT 1 FROM tokens WHERE kind IS NULL)
SELECT coalesce((SELECT schemaname FROM pg_catalog.pg_tables WHERE tablename = 'plantstore' AND schemaname = ANY (current_schemas(false)) ORDER BY array_position(current_schemas(false), schemaname) LIMIT 1), current_schema())::text
SELECT coalesce(audit_sequence, 0), audit_hash, coalesce(pruned_sequence, 0), pruned_hash FROM plantstore
SELECT coalesce(bool_or(tablename = 'plantstore'), false), coalesce(bool_or(tablename <> 'plantstore'), false) FROM pg_catalog.pg_tables WHERE tablename IN ('plantstore', 'plants', 'tokens', 'plantstore_audit', 'plantstore_acme') AND schemaname = ANY (current_schemas(false))
SELECT current_user::text, coalesce(pg_get_userbyid(datdba)::text, '') FROM pg_database WHERE datname = current_database()
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens ORDER BY id
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE hash = $1
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE name = $1 AND kind IS NULL ORDER BY id
SELECT id, name, tag, created_at FROM plants WHERE id >= $1 ORDER BY id LIMIT $2
SELECT id, name, tag, created_at, created_by FROM plants WHERE id = $1 FOR UPDATE
SELECT id, name, tag, created_at, created_by FROM plants WHERE id = ANY($1) ORDER BY id
SELECT id, name, tag, created_at, created_by FROM plants WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3
SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'data_checksums', 'synchronous_standby_names')
SELECT one FROM plantstore FOR UPDATE
SELECT pg_catalog.current_setting('synchronous_standby_names')
SELECT pg_catalog.has_table_privilege('tokens', 'DELETE')
SELECT pg_catalog.pg_advisory_unlock($1, 'plants'::regclass::oid::int)
SELECT pg_catalog.pg_advisory_unlock($1, 'plantstore_acme'::regclass::oid::int)
SELECT pg_catalog.pg_advisory_xact_lock($1)
SELECT pg_catalog.pg_try_advisory_lock($1, 'plants'::regclass::oid::int)
SELECT pg_catalog.pg_try_advisory_lock($1, 'plantstore_acme'::regclass::oid::int)
SELECT plants.id, plants.name, plants.tag, plants.created_at, coalesce(tokens.name, '') FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id = $1
SELECT plants.id, plants.name, plants.tag, plants.created_at, coalesce(tokens.name, '') FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id >= $1 AND plants.tag = $3 ORDER BY plants.id LIMIT $2
SELECT plants.id, plants.name, plants.tag, plants.created_at, coalesce(tokens.name, '') FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id >= $1 ORDER BY plants.id LIMIT $2
SELECT prosrc FROM pg_trigger INNER JOIN pg_proc ON pg_proc.oid = tgfoid WHERE tgrelid = 'plants'::regclass AND tgname = 'follow'
SELECT relname::text, pg_get_userbyid(relowner)::text, coalesce(tgname::text, ''), coalesce(pg_get_userbyid(proowner)::text, '') FROM pg_class INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace LEFT JOIN pg_trigger ON tgrelid = pg_class.oid AND NOT tgisinternal LEFT JOIN pg_proc ON pg_proc.oid = tgfoid WHERE nspname = current_schema() AND relname IN ('plants', 'tokens', 'plantstore', 'plantstore_audit', 'plantstore_acme') ORDER BY relname
SELECT relname::text, pg_get_userbyid(relowner)::text, current_user::text FROM pg_class INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = current_schema() AND relname IN ('plants', 'followed') AND pg_get_userbyid(relowner) <> current_user UNION ALL SELECT proname::text, pg_get_userbyid(proowner)::text, current_user::text FROM pg_proc INNER JOIN pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname = current_schema() AND proname IN ('plantstore_follow', 'plantstore_hold') AND pg_get_userbyid(proowner) <> current_user
SELECT reltuples FROM pg_class WHERE oid = 'plants'::regclass
SELECT sequence, entry, previous, hash FROM plantstore_audit WHERE sequence > $1 ORDER BY sequence LIMIT $2
SELECT token_changes, coalesce(held, '') FROM plantstore
SELECT value FROM plantstore_acme WHERE key = $1
SELECT version FROM plantstore
SET search_path = "public", pg_temp
SET synchronous_commit = 'on'
SHOW synchronous_commit
UPDATE plantstore SET audit_sequence = $1, audit_hash = $2
UPDATE plantstore SET held = $1
UPDATE plantstore SET held = NULL
UPDATE plantstore SET pruned_sequence = $1, pruned_hash = $2
UPDATE plantstore SET token_changes = token_changes + 1
UPDATE plantstore SET version = $1
UPDATE tokens SET expires_at = $1 WHERE id = $2
UPDATE tokens SET last_used_at = greatest(coalesce(last_used_at, used.at), used.at) FROM unnest($1::bigint[], $2::timestamptz[]) AS used (id, at) WHERE tokens.id = used.id
UPDATE tokens SET revoked_at = $1 WHERE hash = $2 AND revoked_at IS NULL AND kind IS NULL RETURNING id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier
UPDATE tokens SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL AND kind IS NULL RETURNING id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier
UPDATE tokens SET revoked_at = $1 WHERE name = $2 AND revoked_at IS NULL AND kind IS NULL RETURNING id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier
UPDATE tokens SET revoked_at = $1, expires_at = $2 WHERE id = $3
WITH ours AS ( SELECT pg_class.oid, relname::text AS tab, relkind::text AS kind, relrowsecurity, relnamespace FROM pg_class INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = current_schema() AND relname IN ('plants', 'tokens', 'plantstore', 'plantstore_audit', 'plantstore_acme')) SELECT 'version', '', '', version::text FROM plantstore UNION ALL SELECT 'table', tab, '', kind FROM ours UNION ALL SELECT 'row-level security', tab, '', '' FROM ours WHERE relrowsecurity UNION ALL SELECT 'column', tab, attname::text, concat(format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END, CASE WHEN atthasdef THEN ' DEFAULT' ELSE '' END) FROM ours INNER JOIN pg_attribute ON attrelid = ours.oid WHERE attnum > 0 AND NOT attisdropped UNION ALL SELECT 'constraint', tab, coalesce(attname::text, conname::text), contype::text FROM ours INNER JOIN pg_constraint ON conrelid = ours.oid LEFT JOIN pg_attribute ON attrelid = ours.oid AND attnum = ANY (conkey) WHERE contype IN ('p', 'u', 'c', 'f', 'x') UNION ALL SELECT 'rule', tab, rulename::text, '' FROM ours INNER JOIN pg_rewrite ON ev_class = ours.oid UNION ALL SELECT 'trigger', tab, tgname::text, concat(tgenabled::text, ' ', (pronamespace = relnamespace)::text, ' ', proname::text, ' ', prosrc) FROM ours INNER JOIN pg_trigger ON tgrelid = ours.oid INNER JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal
begin
commit
copy "plants" ( "id", "name", "tag", "created_at", "created_by" ) from stdin binary;
rollback
select "id", "name", "tag", "created_at", "created_by" from "plants"
show transaction_read_only

-- Only in the source of a move

CREATE OR REPLACE FUNCTION "public"."plantstore_follow"() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS 'BEGIN INSERT INTO "public"."followed" SELECT id FROM created; RETURN NULL; END'; REVOKE EXECUTE ON FUNCTION "public"."plantstore_follow"() FROM PUBLIC
CREATE OR REPLACE FUNCTION "public"."plantstore_follow"() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN NULL; END'; REVOKE EXECUTE ON FUNCTION "public"."plantstore_follow"() FROM PUBLIC
CREATE OR REPLACE FUNCTION "public"."plantstore_hold"() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS 'BEGIN RAISE EXCEPTION ''plantstore move holds the store'' USING ERRCODE = ''PS001''; END'; REVOKE EXECUTE ON FUNCTION "public"."plantstore_hold"() FROM PUBLIC
CREATE OR REPLACE FUNCTION "public"."plantstore_hold"() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN NULL; END'; REVOKE EXECUTE ON FUNCTION "public"."plantstore_hold"() FROM PUBLIC
CREATE TRIGGER follow AFTER INSERT ON plants REFERENCING NEW TABLE AS created FOR EACH STATEMENT EXECUTE FUNCTION "public"."plantstore_follow"()
CREATE TRIGGER hold BEFORE INSERT ON plants FOR EACH STATEMENT EXECUTE FUNCTION "public"."plantstore_hold"()
DELETE FROM followed WHERE id IN (SELECT id FROM followed LIMIT $1) RETURNING id
DROP TABLE IF EXISTS followed; CREATE TABLE followed (id bigint PRIMARY KEY)
DROP TABLE followed
GRANT INSERT ON followed TO postgres
GRANT INSERT ON followed TO server
SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END FROM (SELECT relacl AS acl FROM pg_class WHERE oid = 'plants'::regclass UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = 'plants'::regclass) AS acls, aclexplode(acl) WHERE privilege_type = 'INSERT'
SELECT proname::text, prosrc, pg_get_userbyid(proowner)::text, pg_get_userbyid(proowner) = current_user FROM pg_proc INNER JOIN pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname = current_schema() AND proname IN ('plantstore_follow', 'plantstore_hold') AND prosecdef
SELECT tgname::text FROM pg_trigger WHERE tgrelid = 'plants'::regclass AND tgname IN ('follow', 'hold')
SET LOCAL lock_timeout = '1s'; DROP TRIGGER follow ON plants; DROP FUNCTION "public"."plantstore_follow"()
SET LOCAL lock_timeout = '1s'; DROP TRIGGER hold ON plants; DROP FUNCTION "public"."plantstore_hold"()
SET LOCAL lock_timeout = '1s'; LOCK TABLE plants IN SHARE ROW EXCLUSIVE MODE
