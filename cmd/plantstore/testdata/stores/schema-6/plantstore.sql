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
    prefix text,
    kind text,
    issuer text,
    identifier text
);
INSERT INTO public.plants VALUES (-9223372036854775808, 'first', NULL, '2026-11-22 14:02:59.050938+00', 1);
INSERT INTO public.plants VALUES (-1, 'Weißdorn', '"hedge", 2 m', '2026-11-22 14:02:59.052917+00', 1);
INSERT INTO public.plants VALUES (1, 'ばら 🌹', '', '2026-11-22 14:02:59.05675+00', 1);
INSERT INTO public.plants VALUES (9223372036854775807, 'last', 'edge', '2026-11-22 14:02:59.058172+00', 1);
INSERT INTO public.plantstore VALUES (true, 6, 4, NULL, 6, '\xffa07ea43be8a01d38eac0420cc8a8b61b76714ede4ca71fb53a7eae1505c7fd', NULL, NULL);
INSERT INTO public.plantstore_audit VALUES (1, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"1","token_name":"nursery"},"sequence":1,"time":"2026-11-22T14:02:58.708624Z"}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\x56d119cbac89145c1c73ed4815b8079397a3ba1f38afda7531e90a0362f7a9fb');
INSERT INTO public.plantstore_audit VALUES (2, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":2,"time":"2026-11-22T14:02:58.860228Z"}', '\x56d119cbac89145c1c73ed4815b8079397a3ba1f38afda7531e90a0362f7a9fb', '\x6360567052cdeb5056213b87a96074ab201424c6e29df303965b294fadd86d42');
INSERT INTO public.plantstore_audit VALUES (3, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"expires_at":"2027-02-20T14:02:58Z","scopes":"plants:create","token_id":"3","token_name":"guest"},"sequence":3,"time":"2026-11-22T14:02:58.943236Z"}', '\x6360567052cdeb5056213b87a96074ab201424c6e29df303965b294fadd86d42', '\xee412848635b6b05b8247e77509e23a9ff8f79897e52797f8cafb504c163ae3d');
INSERT INTO public.plantstore_audit VALUES (4, '{"action":"token.revoke","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":4,"time":"2026-11-22T14:02:59.002309Z"}', '\xee412848635b6b05b8247e77509e23a9ff8f79897e52797f8cafb504c163ae3d', '\xf8f718826c2b209737d439b71c99c42aa2b270431bc47171d6beaae0abfded6e');
INSERT INTO public.plantstore_audit VALUES (5, '{"action":"server.start","actor":{"id":"0","kind":"user","name":"root"},"details":{"setting.acme-ca":"","setting.acme-directory":"https://acme-v02.api.letsencrypt.org/directory","setting.acme-domain":"","setting.acme-email":"","setting.acme-http-listen":"","setting.admin-host":"","setting.admin-listen":"127.0.0.1:0","setting.admin-open":"false","setting.answer-timeout":"20s","setting.audit-keep":"400d","setting.auth-failures":"30","setting.backup-dir":"","setting.backup-every":"1d","setting.backup-keep":"7","setting.base-url":"","setting.body-max":"64KiB","setting.client-ca":"","setting.config":"","setting.connections-max":"0","setting.connections-per-address":"1000","setting.cors-origins":"","setting.credential-burst":"0","setting.credential-concurrency":"0","setting.credential-rate":"0","setting.db":"postgres://postgres@/test1?host=%2Ftmp%2Fpgtest378596819","setting.header-max":"16KiB","setting.idle-timeout":"2m","setting.incomplete-max":"512","setting.insecure-listen":"false","setting.listen":"127.0.0.1:0","setting.log-format":"text","setting.log-level":"access","setting.oidc-audience":"","setting.oidc-issuer":"","setting.oidc-name-claim":"sub","setting.oidc-scope-claim":"scope","setting.oidc-scopes":"","setting.pprof":"false","setting.print-tokens":"false","setting.proxy-protocol":"false","setting.queue-max":"8192","setting.request-timeout":"10s","setting.require-sync-standby":"false","setting.tls-cert":"","setting.tls-key":"","setting.trusted-proxies":"","setting.wal-max":"64MiB","source.admin-listen":"--admin-listen","source.db":"--db","source.listen":"--listen","version":"1.0.0-dev"},"sequence":5,"time":"2026-11-22T14:02:59.032550Z"}', '\xf8f718826c2b209737d439b71c99c42aa2b270431bc47171d6beaae0abfded6e', '\xc058124907ebdfe3e35ef6cac9fdd43826fbe2e99756a55527f8e1369ca63e8d');
INSERT INTO public.plantstore_audit VALUES (6, '{"action":"server.stop","actor":{"id":"0","kind":"user","name":"root"},"details":{},"sequence":6,"time":"2026-11-22T14:02:59.065880Z"}', '\xc058124907ebdfe3e35ef6cac9fdd43826fbe2e99756a55527f8e1369ca63e8d', '\xffa07ea43be8a01d38eac0420cc8a8b61b76714ede4ca71fb53a7eae1505c7fd');
INSERT INTO public.tokens VALUES (3, 'guest', '\xdc3a2ebacc1b919550babbee6f4350d0973c20543f34be4195c1b6367a28761f', 'plants:create', '2026-11-22 14:02:58.943236+00', '2027-02-20 14:02:58.943236+00', NULL, NULL, 'pst_UMNn', NULL, NULL, NULL);
INSERT INTO public.tokens VALUES (2, 'lost', '\x46f7e998be396f97b887fc119458d0c3ba0b97ad20fcac27d0317678cb821cfa', 'plants:create', '2026-11-22 14:02:58.860228+00', NULL, NULL, '2026-11-22 14:02:59.002309+00', 'pst_h2zl', NULL, NULL, NULL);
INSERT INTO public.tokens VALUES (1, 'nursery', '\x7f679ef1993b77798e984aa70cbdb4e8721b767a1824763606d4a25b8dc2e009', 'plants:create', '2026-11-22 14:02:58.708624+00', NULL, '2026-11-22 14:02:59.050893+00', NULL, 'pst_lxUH', NULL, NULL, NULL);
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
