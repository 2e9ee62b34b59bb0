SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.plants (
    id bigint NOT NULL,
    name text NOT NULL,
    tag text,
    created_at timestamp with time zone NOT NULL,
    created_by bigint NOT NULL
);
CREATE TABLE public.plantstore (
    one boolean NOT NULL,
    version bigint NOT NULL,
    token_changes bigint NOT NULL,
    held text,
    audit_sequence bigint,
    audit_hash bytea,
    pruned_sequence bigint,
    pruned_hash bytea,
    CONSTRAINT plantstore_one_check CHECK (one)
);
CREATE TABLE public.plantstore_audit (
    sequence bigint NOT NULL,
    entry text NOT NULL,
    previous bytea NOT NULL,
    hash bytea NOT NULL
);
CREATE TABLE public.tokens (
    id bigint NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL,
    scopes text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    prefix text
);
INSERT INTO public.plants VALUES (-9223372036854775808, 'first', NULL, '2026-11-22 14:02:50.647766+00', 1);
INSERT INTO public.plants VALUES (-1, 'Weißdorn', '"hedge", 2 m', '2026-11-22 14:02:50.651312+00', 1);
INSERT INTO public.plants VALUES (1, 'ばら 🌹', '', '2026-11-22 14:02:50.652917+00', 1);
INSERT INTO public.plants VALUES (9223372036854775807, 'last', 'edge', '2026-11-22 14:02:50.654649+00', 1);
INSERT INTO public.plantstore VALUES (true, 4, 4, NULL, 6, '\xe57b6f5c24c4deef25f0fdac9c626e4ac13f3890820c630ea3a89aa3244dc0bb', NULL, NULL);
INSERT INTO public.plantstore_audit VALUES (1, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"1","token_name":"nursery"},"sequence":1,"time":"2026-11-22T14:02:50.227357Z"}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\xe614cb602343ff2f1fc2a74c6910b1a5760f7b9f9c77d707430f21259d59c4a7');
INSERT INTO public.plantstore_audit VALUES (2, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":2,"time":"2026-11-22T14:02:50.396507Z"}', '\xe614cb602343ff2f1fc2a74c6910b1a5760f7b9f9c77d707430f21259d59c4a7', '\x38f3d756d289694463c828bf18400b156d55569d4d0dc50ea09cba7d39de27e3');
INSERT INTO public.plantstore_audit VALUES (3, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"expires_at":"2027-02-20T14:02:50Z","scopes":"plants:create","token_id":"3","token_name":"guest"},"sequence":3,"time":"2026-11-22T14:02:50.470917Z"}', '\x38f3d756d289694463c828bf18400b156d55569d4d0dc50ea09cba7d39de27e3', '\xd27d2f5f133b0dc69bc3498132ff0d856780f5db82615d5c77933e56e20b2018');
INSERT INTO public.plantstore_audit VALUES (4, '{"action":"token.revoke","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":4,"time":"2026-11-22T14:02:50.555315Z"}', '\xd27d2f5f133b0dc69bc3498132ff0d856780f5db82615d5c77933e56e20b2018', '\xc471f996df0ad29bfd247e045b59efabd2c33a603a7909749e8d3ea4f0c5fdaa');
INSERT INTO public.plantstore_audit VALUES (5, '{"action":"server.start","actor":{"id":"0","kind":"user","name":"root"},"details":{"setting.admin-host":"","setting.admin-listen":"127.0.0.1:0","setting.admin-open":"false","setting.answer-timeout":"20s","setting.audit-keep":"400d","setting.auth-failures":"30","setting.backup-dir":"","setting.backup-every":"1d","setting.backup-keep":"7","setting.base-url":"","setting.body-max":"64KiB","setting.client-ca":"","setting.config":"","setting.cors-origins":"","setting.credential-burst":"0","setting.credential-concurrency":"0","setting.credential-rate":"0","setting.db":"postgres://postgres@/test1?host=%2Ftmp%2Fpgtest4227012444","setting.header-max":"16KiB","setting.idle-timeout":"2m","setting.insecure-listen":"false","setting.listen":"127.0.0.1:0","setting.log-format":"text","setting.log-level":"access","setting.pprof":"false","setting.print-tokens":"false","setting.proxy-protocol":"false","setting.queue-max":"8192","setting.request-timeout":"10s","setting.require-sync-standby":"false","setting.tls-cert":"","setting.tls-key":"","setting.trusted-proxies":"","setting.wal-max":"64MiB","source.admin-listen":"--admin-listen","source.db":"--db","source.listen":"--listen","version":"1.0.0-dev"},"sequence":5,"time":"2026-11-22T14:02:50.610224Z"}', '\xc471f996df0ad29bfd247e045b59efabd2c33a603a7909749e8d3ea4f0c5fdaa', '\x8bcde7d756d1146b8a4eeb0501cdee1b37f5692040aa0def6a00e161fca7e921');
INSERT INTO public.plantstore_audit VALUES (6, '{"action":"server.stop","actor":{"id":"0","kind":"user","name":"root"},"details":{},"sequence":6,"time":"2026-11-22T14:02:50.658112Z"}', '\x8bcde7d756d1146b8a4eeb0501cdee1b37f5692040aa0def6a00e161fca7e921', '\xe57b6f5c24c4deef25f0fdac9c626e4ac13f3890820c630ea3a89aa3244dc0bb');
INSERT INTO public.tokens VALUES (3, 'guest', '\x654c21f7dc9fbf4c9433c00c970c59fd781d77b2d0f87d46af4aa73d39c12997', 'plants:create', '2026-11-22 14:02:50.470917+00', '2027-02-20 14:02:50.470917+00', NULL, NULL, 'pst_KxHs');
INSERT INTO public.tokens VALUES (2, 'lost', '\x70262b3765b7c4758685984c29c7296b3fff4e17ec420e84ad9af4166b6d5a85', 'plants:create', '2026-11-22 14:02:50.396507+00', NULL, NULL, '2026-11-22 14:02:50.555315+00', 'pst_FFvc');
INSERT INTO public.tokens VALUES (1, 'nursery', '\xfab69b1d8dcc4be700037455411c97af8c6b31253525bd8570937260e175fa07', 'plants:create', '2026-11-22 14:02:50.227357+00', NULL, '2026-11-22 14:02:50.647745+00', NULL, 'pst_vIQB');
ALTER TABLE ONLY public.plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.plantstore_audit
    ADD CONSTRAINT plantstore_audit_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY public.plantstore
    ADD CONSTRAINT plantstore_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
