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
CREATE TABLE public.plantstore_acme (
    key text NOT NULL,
    value bytea NOT NULL
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
INSERT INTO public.plants VALUES (-9223372036854775808, 'first', NULL, '2026-11-22 14:02:54.411495+00', 1);
INSERT INTO public.plants VALUES (-1, 'Weißdorn', '"hedge", 2 m', '2026-11-22 14:02:54.412899+00', 1);
INSERT INTO public.plants VALUES (1, 'ばら 🌹', '', '2026-11-22 14:02:54.414807+00', 1);
INSERT INTO public.plants VALUES (9223372036854775807, 'last', 'edge', '2026-11-22 14:02:54.418219+00', 1);
INSERT INTO public.plantstore VALUES (true, 5, 4, NULL, 6, '\x76fe78008d56cc543b3d4ce254a7cb2e15c7f4813adf813729f412d638e4b2cb', NULL, NULL);
INSERT INTO public.plantstore_audit VALUES (1, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"1","token_name":"nursery"},"sequence":1,"time":"2026-11-22T14:02:54.157251Z"}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\xebe2cc4d4be816dcb476e098bbaf5cc31eecb66ea042dc9a89baf61359c127a6');
INSERT INTO public.plantstore_audit VALUES (2, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":2,"time":"2026-11-22T14:02:54.298399Z"}', '\xebe2cc4d4be816dcb476e098bbaf5cc31eecb66ea042dc9a89baf61359c127a6', '\x0eb8b610e8c1cc13604a397c1c6b7fadfbb9c4d491a46da097c15bad75a72860');
INSERT INTO public.plantstore_audit VALUES (3, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"expires_at":"2027-02-20T14:02:54Z","scopes":"plants:create","token_id":"3","token_name":"guest"},"sequence":3,"time":"2026-11-22T14:02:54.319643Z"}', '\x0eb8b610e8c1cc13604a397c1c6b7fadfbb9c4d491a46da097c15bad75a72860', '\x71f345bfcd2e768477f32ddbd91f14b03f068c58390d212ac8ac5f2da416eaf4');
INSERT INTO public.plantstore_audit VALUES (4, '{"action":"token.revoke","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":4,"time":"2026-11-22T14:02:54.356132Z"}', '\x71f345bfcd2e768477f32ddbd91f14b03f068c58390d212ac8ac5f2da416eaf4', '\x94fccbd0c3b417ad84ff8bd24db5b87a293670deb37c445595fdc3b707fae9cc');
INSERT INTO public.plantstore_audit VALUES (5, '{"action":"server.start","actor":{"id":"0","kind":"user","name":"root"},"details":{"setting.acme-ca":"","setting.acme-directory":"https://acme-v02.api.letsencrypt.org/directory","setting.acme-domain":"","setting.acme-email":"","setting.acme-http-listen":"","setting.admin-host":"","setting.admin-listen":"127.0.0.1:0","setting.admin-open":"false","setting.answer-timeout":"20s","setting.audit-keep":"400d","setting.auth-failures":"30","setting.backup-dir":"","setting.backup-every":"1d","setting.backup-keep":"7","setting.base-url":"","setting.body-max":"64KiB","setting.client-ca":"","setting.config":"","setting.connections-max":"0","setting.connections-per-address":"1000","setting.cors-origins":"","setting.credential-burst":"0","setting.credential-concurrency":"0","setting.credential-rate":"0","setting.db":"postgres://postgres@/test1?host=%2Ftmp%2Fpgtest1738645239","setting.header-max":"16KiB","setting.idle-timeout":"2m","setting.incomplete-max":"512","setting.insecure-listen":"false","setting.listen":"127.0.0.1:0","setting.log-format":"text","setting.log-level":"access","setting.pprof":"false","setting.print-tokens":"false","setting.proxy-protocol":"false","setting.queue-max":"8192","setting.request-timeout":"10s","setting.require-sync-standby":"false","setting.tls-cert":"","setting.tls-key":"","setting.trusted-proxies":"","setting.wal-max":"64MiB","source.admin-listen":"--admin-listen","source.db":"--db","source.listen":"--listen","version":"1.0.0-dev"},"sequence":5,"time":"2026-11-22T14:02:54.398713Z"}', '\x94fccbd0c3b417ad84ff8bd24db5b87a293670deb37c445595fdc3b707fae9cc', '\xb7cfa45c34947392843f63da7750d52bf033e6fb1f655b88cc9d013b9beb21d3');
INSERT INTO public.plantstore_audit VALUES (6, '{"action":"server.stop","actor":{"id":"0","kind":"user","name":"root"},"details":{},"sequence":6,"time":"2026-11-22T14:02:54.426694Z"}', '\xb7cfa45c34947392843f63da7750d52bf033e6fb1f655b88cc9d013b9beb21d3', '\x76fe78008d56cc543b3d4ce254a7cb2e15c7f4813adf813729f412d638e4b2cb');
INSERT INTO public.tokens VALUES (3, 'guest', '\x776340c7d82182cf0fb899aa5b3baf179128ae17d74a9203fba57e2fcfc06dfa', 'plants:create', '2026-11-22 14:02:54.319643+00', '2027-02-20 14:02:54.319643+00', NULL, NULL, 'pst_U2xx');
INSERT INTO public.tokens VALUES (2, 'lost', '\xddd5566d52505422780b159c17b37fabed0f5eb600e09967243dd94b98b378b2', 'plants:create', '2026-11-22 14:02:54.298399+00', NULL, NULL, '2026-11-22 14:02:54.356132+00', 'pst_k5G9');
INSERT INTO public.tokens VALUES (1, 'nursery', '\x80e4336a50c5cca356741f092c05cfcecc569550feb55d8945e537205aea7198', 'plants:create', '2026-11-22 14:02:54.157251+00', NULL, '2026-11-22 14:02:54.411427+00', NULL, 'pst_k9kr');
ALTER TABLE ONLY public.plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.plantstore_acme
    ADD CONSTRAINT plantstore_acme_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.plantstore_audit
    ADD CONSTRAINT plantstore_audit_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY public.plantstore
    ADD CONSTRAINT plantstore_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
