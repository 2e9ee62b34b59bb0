-- Every statement of the PostgreSQL engine.
-- go test ./internal/postgres -run TestSQL -update writes it.

-- Serving

BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, TRUE), pg_catalog.set_config('client_min_messages', 'warning', TRUE), pg_catalog.set_config('search_path', '"public", pg_temp', TRUE)
BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, TRUE), pg_catalog.set_config('client_min_messages', 'warning', TRUE), pg_catalog.set_config('search_path', '"public", pg_temp', TRUE); SELECT pg_catalog.set_config(name, '0', TRUE) FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'statement_timeout', 'transaction_timeout')
BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = DEFAULT
CREATE TABLE plants ( id bigint PRIMARY KEY, name text NOT NULL, tag text, created_at timestamptz NOT NULL, created_by bigint NOT NULL ); CREATE TABLE tokens ( id bigint PRIMARY KEY, kind text, name text NOT NULL, hash bytea NOT NULL UNIQUE, prefix text, issuer text, identifier text, scopes text NOT NULL, created_at timestamptz NOT NULL, expires_at timestamptz, last_used_at timestamptz, revoked_at timestamptz ); CREATE TABLE plantstore ( one boolean PRIMARY KEY CHECK (one), version bigint NOT NULL, token_changes bigint NOT NULL, moved_to text, webhooks boolean, audit_sequence bigint, audit_hash bytea, pruned_sequence bigint, pruned_hash bytea ); INSERT INTO plantstore (one, version, token_changes) VALUES (true, 0, 0); CREATE TABLE plantstore_audit ( sequence bigint PRIMARY KEY, entry text NOT NULL, previous bytea NOT NULL, hash bytea NOT NULL ); CREATE TABLE plantstore_acme ( key text PRIMARY KEY, value bytea NOT NULL ); CREATE TABLE plantstore_webhooks ( id bigint PRIMARY KEY, url text NOT NULL UNIQUE, active boolean NOT NULL ); CREATE TABLE plantstore_outbox ( created_at timestamptz NOT NULL, plant bigint NOT NULL, PRIMARY KEY (created_at, plant) ); CREATE TABLE plantstore_deliveries ( webhook bigint NOT NULL, plant bigint NOT NULL, since timestamptz NOT NULL, due_at timestamptz, dead_at timestamptz, attempts bigint NOT NULL, reason text, erased boolean NOT NULL DEFAULT FALSE, PRIMARY KEY (webhook, plant) ); CREATE INDEX plantstore_deliveries_due ON plantstore_deliveries (webhook, due_at);
DELETE FROM plants WHERE id = $1 AND created_at = $2 AND created_by = $3
DELETE FROM plantstore_acme WHERE key = $1
DELETE FROM plantstore_audit WHERE sequence <= $1
DELETE FROM plantstore_deliveries WHERE plant = $1 AND webhook IN (SELECT id FROM plantstore_webhooks WHERE NOT active)
DELETE FROM plantstore_deliveries WHERE webhook = $1 AND plant = $2 AND due_at IS NULL
DELETE FROM plantstore_deliveries WHERE webhook = $1 AND plant = $2 AND since = $3
DELETE FROM plantstore_deliveries WHERE webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries WHERE webhook = $1 AND due_at IS NULL AND plant >= $2 AND plant <= $3 ORDER BY due_at LIMIT $4)
DELETE FROM plantstore_outbox WHERE plant = $1
DELETE FROM tokens WHERE id = $1
INSERT INTO plants (id, name, created_at, created_by) VALUES ($1, '', $2, 0) ON CONFLICT (id) DO NOTHING
INSERT INTO plants (id, name, tag, created_at, created_by) SELECT id, name, tag, created_at, created_by FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[]) AS new (id, name, tag, created_at, created_by) WHERE NOT EXISTS (SELECT 1 FROM plantstore WHERE webhooks) ON CONFLICT (id) DO NOTHING RETURNING id
INSERT INTO plants (id, name, tag, created_at, created_by) VALUES ($1, $2, $3, $4, $5)
INSERT INTO plants (id, name, tag, created_at, created_by) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING RETURNING id
INSERT INTO plants (id, name, tag, created_at, created_by) VALUES ($1, $2, $3, $4, $5), ($6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING RETURNING id
INSERT INTO plantstore_acme (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value
INSERT INTO plantstore_audit (sequence, entry, previous, hash) VALUES ($1, $2, $3, $4) ON CONFLICT (sequence) DO NOTHING
INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts, erased) SELECT id, $1, $2, $3, 0, $4 FROM plantstore_webhooks WHERE active ON CONFLICT (webhook, plant) DO UPDATE SET since = excluded.since, due_at = CASE WHEN plantstore_deliveries.due_at > excluded.due_at AND plantstore_deliveries.due_at <= $5 THEN plantstore_deliveries.due_at ELSE excluded.due_at END, dead_at = NULL, attempts = 0, reason = NULL, erased = excluded.erased
INSERT INTO plantstore_webhooks (id, url, active) SELECT coalesce(max(id), 0) + 1, $1, TRUE FROM plantstore_webhooks WHERE TRUE ON CONFLICT (url) DO UPDATE SET active = TRUE
INSERT INTO plantstore_webhooks (id, url, active) VALUES ($1, $2, $3)
INSERT INTO tokens (id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, ''), nullif($10, ''), nullif($11, ''), nullif($12, '')) ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at
SELECT CASE WHEN EXISTS (SELECT 1 FROM plants) THEN 'plants' WHEN EXISTS (SELECT 1 FROM tokens) THEN 'tokens' WHEN audit_sequence IS NOT NULL THEN 'an audit log' ELSE '' END FROM plantstore
SELECT EXISTS (SELECT 1 FROM plantstore WHERE webhooks)
SELECT coalesce(audit_sequence, 0), audit_hash, coalesce(pruned_sequence, 0), pruned_hash FROM plantstore
SELECT coalesce(bool_or(tablename = 'plantstore'), false), coalesce(bool_or(tablename <> 'plantstore'), false) FROM pg_catalog.pg_tables WHERE tablename IN ('plants', 'tokens', 'plantstore', 'plantstore_audit', 'plantstore_acme', 'plantstore_webhooks', 'plantstore_outbox', 'plantstore_deliveries') AND schemaname = ANY (current_schemas(false))
SELECT coalesce(max(id), 0) + 1 FROM tokens
SELECT coalesce(max(id), 0) FROM plants
SELECT coalesce(moved_to, '') FROM plantstore
SELECT coalesce(webhooks, FALSE) FROM plantstore
SELECT created_at FROM plantstore_outbox ORDER BY created_at LIMIT 1
SELECT current_timestamp FROM plantstore
SELECT current_timestamp FROM plantstore FOR UPDATE
SELECT current_user::text, coalesce(pg_get_userbyid(datdba)::text, '') FROM pg_database WHERE datname = current_database()
SELECT id, active, (SELECT count(*) FROM plantstore_outbox), sum(CASE WHEN due_at IS NOT NULL THEN 1 ELSE 0 END), min(CASE WHEN due_at IS NOT NULL THEN since END), sum(CASE WHEN dead_at IS NOT NULL THEN 1 ELSE 0 END) FROM plantstore_webhooks LEFT JOIN plantstore_deliveries ON webhook = id GROUP BY id
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens ORDER BY id
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE hash = $1
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE hash = $1 AND kind IS NULL ORDER BY id
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE id = $1 AND kind IS NULL ORDER BY id
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE kind = $1 AND coalesce(expires_at >= $2, TRUE) AND (SELECT max(id) FROM tokens) > $3 LIMIT 1 OFFSET $3
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE kind = $2 AND coalesce(last_used_at, created_at) < $3 AND coalesce(revoked_at < $4, TRUE) AND id < (SELECT max(id) FROM tokens) ORDER BY id LIMIT $1
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE kind = $2 AND expires_at < $3 AND hash <> $4 AND id < (SELECT max(id) FROM tokens) ORDER BY id LIMIT $1
SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, kind, issuer, identifier FROM tokens WHERE name = $1 AND kind IS NULL ORDER BY id
SELECT id, name, tag, created_at, created_by FROM plants
SELECT id, name, tag, created_at, created_by FROM plants WHERE id = $1 FOR UPDATE
SELECT id, name, tag, created_at, created_by FROM plants WHERE id = ANY($1) ORDER BY id
SELECT id, name, tag, created_at, created_by FROM plants WHERE id >= $1 ORDER BY id LIMIT $2
SELECT id, url, active FROM plantstore_webhooks ORDER BY id
SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'data_checksums', 'synchronous_standby_names')
SELECT pg_catalog.current_schemas(FALSE)::text[]
SELECT pg_catalog.current_setting('server_encoding')
SELECT pg_catalog.current_setting('synchronous_standby_names'), pg_catalog.pg_conf_load_time(), pg_catalog.clock_timestamp()
SELECT pg_catalog.has_table_privilege('tokens', 'DELETE')
SELECT pg_catalog.pg_advisory_xact_lock($1)
SELECT pg_catalog.pg_try_advisory_xact_lock($1, 'plantstore_acme'::regclass::oid::int)
SELECT pg_catalog.set_config('citus.multi_shard_modify_mode', 'sequential', FALSE) FROM pg_extension WHERE extname = 'citus'
SELECT pg_catalog.set_config('search_path', $1, TRUE)
SELECT pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, TRUE), pg_catalog.set_config('client_min_messages', 'warning', TRUE), pg_catalog.set_config('search_path', '"public", pg_temp', TRUE)
SELECT plant, since, attempts, erased FROM plantstore_deliveries WHERE webhook = $1 AND due_at <= $2 AND EXISTS (SELECT 1 FROM plantstore_webhooks WHERE id = $1 AND active) ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED
SELECT plant, since, dead_at, attempts, reason FROM plantstore_deliveries WHERE webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries WHERE webhook = $1 AND due_at IS NULL AND plant >= $2 ORDER BY plant LIMIT $3) ORDER BY plant
SELECT plants.id, plants.name, plants.tag, plants.created_at, tokens.name, plants.created_by FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id = $1
SELECT plants.id, plants.name, plants.tag, plants.created_at, tokens.name, plants.created_by FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id >= $1 AND plants.tag = $3 ORDER BY plants.id LIMIT $2
SELECT plants.id, plants.name, plants.tag, plants.created_at, tokens.name, plants.created_by FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id >= $1 ORDER BY plants.id LIMIT $2
SELECT relname::text, pg_get_userbyid(relowner)::text, relpersistence <> 'p', coalesce(tgname::text, '') FROM pg_class INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace LEFT JOIN pg_trigger ON tgrelid = pg_class.oid AND NOT tgisinternal WHERE nspname = current_schema() AND relname IN ('plants', 'tokens', 'plantstore', 'plantstore_audit', 'plantstore_acme', 'plantstore_webhooks', 'plantstore_outbox', 'plantstore_deliveries') ORDER BY relname
SELECT reltuples FROM pg_class WHERE oid = 'plants'::regclass::oid
SELECT schemaname::text FROM pg_catalog.pg_tables WHERE tablename = 'plantstore'
SELECT sequence, entry, previous, hash FROM plantstore_audit WHERE sequence > $1 ORDER BY sequence LIMIT $2
SELECT token_changes, coalesce(webhooks, FALSE) FROM plantstore
SELECT value FROM plantstore_acme WHERE key = $1
SELECT version FROM plantstore
SELECT virtualtransaction FROM pg_locks WHERE relation = 'plants'::regclass::oid AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND mode = 'RowExclusiveLock'
SELECT webhook, plant FROM plantstore_deliveries WHERE dead_at < $1 LIMIT $2
SELECT webhook, plant FROM plantstore_deliveries WHERE due_at <= $1 AND since < $2 LIMIT $3
SET LOCAL lock_timeout = '3s';
SET LOCAL lock_timeout = '3s'; SELECT one FROM plantstore FOR UPDATE
SET LOCAL search_path = pg_catalog, pg_temp
SET search_path = "public", pg_temp; SET default_transaction_isolation = 'read committed'
UPDATE plantstore SET audit_sequence = $1, audit_hash = $2
UPDATE plantstore SET audit_sequence = $1, audit_hash = $2, pruned_sequence = $3, pruned_hash = $4
UPDATE plantstore SET token_changes = token_changes + 1
UPDATE plantstore SET version = $1
UPDATE plantstore SET webhooks = EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active)
UPDATE plantstore_deliveries SET due_at = $1 WHERE webhook = $2 AND plant = $3
UPDATE plantstore_deliveries SET due_at = $1 WHERE webhook = $2 AND plant = $3 AND since <> $4 AND due_at = $5
UPDATE plantstore_deliveries SET due_at = $1, dead_at = $2, attempts = $3, reason = coalesce(nullif($4, ''), reason) WHERE webhook = $5 AND plant = $6 AND due_at = $7 AND since = $8
UPDATE plantstore_deliveries SET due_at = NULL, dead_at = $3, reason = $4 WHERE webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries WHERE webhook = $1 AND due_at IS NOT NULL ORDER BY due_at LIMIT $2)
UPDATE plantstore_deliveries SET due_at = NULL, dead_at = $3, reason = $4 || coalesce($5 || reason, '') WHERE webhook = $1 AND plant = $2 AND due_at <= $3
UPDATE plantstore_deliveries SET since = $5, due_at = $5, dead_at = NULL, attempts = 0, reason = NULL WHERE webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries WHERE webhook = $1 AND due_at IS NULL AND plant >= $2 AND plant <= $3 ORDER BY due_at LIMIT $4)
UPDATE plantstore_webhooks SET active = FALSE WHERE url = $1
UPDATE tokens SET last_used_at = $1 WHERE id = $2 AND coalesce(last_used_at < $1, TRUE)
WITH created AS (INSERT INTO plants (id, name, tag, created_at, created_by) SELECT id, name, tag, created_at, created_by FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[]) AS new (id, name, tag, created_at, created_by) ON CONFLICT (id) DO NOTHING RETURNING id, created_at), events AS (INSERT INTO plantstore_outbox (created_at, plant) SELECT created_at, id FROM created) SELECT id FROM created
WITH events AS ( DELETE FROM plantstore_outbox WHERE (created_at, plant) IN ( SELECT created_at, plant FROM plantstore_outbox WHERE EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active) ORDER BY created_at, plant LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING created_at, plant) INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts) SELECT id, plant, created_at, $2, 0 FROM events CROSS JOIN plantstore_webhooks WHERE active ON CONFLICT (webhook, plant) DO UPDATE SET since = excluded.since, due_at = CASE WHEN plantstore_deliveries.due_at > excluded.due_at AND plantstore_deliveries.due_at <= $3 THEN plantstore_deliveries.due_at ELSE excluded.due_at END, dead_at = NULL, attempts = 0, reason = NULL, erased = FALSE WHERE plantstore_deliveries.erased
commit
copy "plants" ( "id", "name", "tag", "created_at", "created_by" ) from stdin binary;
copy "plantstore_deliveries" ( "webhook", "plant", "since", "due_at", "dead_at", "attempts", "reason", "erased" ) from stdin binary;
copy "plantstore_outbox" ( "created_at", "plant" ) from stdin binary;
rollback
select "created_at", "plant" from "plantstore_outbox"
select "id", "name", "tag", "created_at", "created_by" from "plants"
select "webhook", "plant", "since", "due_at", "dead_at", "attempts", "reason", "erased" from "plantstore_deliveries"
show transaction_read_only

-- Only in the source of a move

ALTER TABLE plants ADD CONSTRAINT plantstore_moved CHECK (FALSE) NOT VALID; ALTER TABLE plantstore ADD CONSTRAINT plantstore_moved CHECK (FALSE) NOT VALID
ALTER TABLE plants DROP CONSTRAINT IF EXISTS plantstore_moved; ALTER TABLE plantstore DROP CONSTRAINT IF EXISTS plantstore_moved
SELECT id, name, tag, created_at, created_by FROM plants ORDER BY id
SELECT pg_catalog.count(relation) FROM pg_locks WHERE relation IN ('plantstore'::regclass::oid, 'plants'::regclass::oid) AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
SELECT pg_get_userbyid(relowner)::text, current_user::text FROM pg_class WHERE oid = 'plants'::regclass::oid
SELECT webhook, plant, since, due_at, dead_at, attempts, reason, erased FROM plantstore_deliveries UNION ALL SELECT 0, plant, created_at, NULL, NULL, 0, NULL, FALSE FROM plantstore_outbox ORDER BY since, plant
SET LOCAL lock_timeout = '3s'; LOCK TABLE plants, plantstore IN ACCESS EXCLUSIVE MODE
UPDATE plantstore SET moved_to = $1
