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
    moved_to text,
    webhooks boolean,
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
CREATE TABLE public.plantstore_deliveries (
    webhook bigint NOT NULL,
    plant bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    due_at timestamp with time zone,
    dead_at timestamp with time zone,
    attempts bigint NOT NULL,
    reason text,
    erased boolean DEFAULT false NOT NULL
);
CREATE TABLE public.plantstore_outbox (
    created_at timestamp with time zone NOT NULL,
    plant bigint NOT NULL
);
CREATE TABLE public.plantstore_webhooks (
    id bigint NOT NULL,
    url text NOT NULL,
    active boolean NOT NULL
);
CREATE TABLE public.tokens (
    id bigint NOT NULL,
    kind text,
    name text NOT NULL,
    hash bytea NOT NULL,
    prefix text,
    issuer text,
    identifier text,
    scopes text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone
);
INSERT INTO public.plants VALUES (-9223372036854775808, 'first', NULL, '2026-11-23 23:08:34.203101+00', 1);
INSERT INTO public.plants VALUES (-1, 'Weißdorn', '"hedge", 2 m', '2026-11-23 23:08:34.215622+00', 1);
INSERT INTO public.plants VALUES (1, 'ばら 🌹', '', '2026-11-23 23:08:34.219729+00', 1);
INSERT INTO public.plants VALUES (9223372036854775807, 'last', 'edge', '2026-11-23 23:08:34.223646+00', 1);
INSERT INTO public.plantstore VALUES (true, 1, 4, NULL, NULL, 6, '\xa4374979aab6a485429b5419191870d25e8a71dceec7f774be61a9c4c1a726a9', NULL, NULL);
INSERT INTO public.plantstore_audit VALUES (1, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"1","token_name":"nursery"},"sequence":1,"time":"2026-11-23T23:08:34.011072Z"}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\x34a46fe86efbc3f1da061d67ae188377559ccf6c21806c36126d87e0534f9a71');
INSERT INTO public.plantstore_audit VALUES (2, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":2,"time":"2026-11-23T23:08:34.036675Z"}', '\x34a46fe86efbc3f1da061d67ae188377559ccf6c21806c36126d87e0534f9a71', '\x98610f76dd99245c6eeb07302a1e9af6a17e67d9f0ab21ca93e696af7027c2ee');
INSERT INTO public.plantstore_audit VALUES (3, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"expires_at":"2027-02-21T23:08:34Z","scopes":"plants:create","token_id":"3","token_name":"guest"},"sequence":3,"time":"2026-11-23T23:08:34.076316Z"}', '\x98610f76dd99245c6eeb07302a1e9af6a17e67d9f0ab21ca93e696af7027c2ee', '\x183d318da91c652a0a2c87bfab7f968dcdbd04b6dc68903d3e9f0f733a0b0295');
INSERT INTO public.plantstore_audit VALUES (4, '{"action":"token.revoke","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":4,"time":"2026-11-23T23:08:34.110204Z"}', '\x183d318da91c652a0a2c87bfab7f968dcdbd04b6dc68903d3e9f0f733a0b0295', '\x6b0065820dbbe23ab62652faea1c092c3ab52b797334fc76ae1b4304c012b684');
INSERT INTO public.plantstore_audit VALUES (5, '{"action":"server.start","actor":{"id":"0","kind":"user","name":"root"},"details":{"setting.acme-ca":"","setting.acme-directory":"https://acme-v02.api.letsencrypt.org/directory","setting.acme-domain":"","setting.acme-email":"","setting.acme-http-listen":"","setting.admin-host":"","setting.admin-listen":"127.0.0.1:0","setting.admin-open":"false","setting.answer-timeout":"20s","setting.audit-keep":"400d","setting.auth-failures":"30","setting.backup-dir":"","setting.backup-every":"1d","setting.backup-keep":"7","setting.base-url":"","setting.body-max":"64KiB","setting.client-ca":"","setting.config":"","setting.connections-max":"0","setting.connections-per-address":"1000","setting.console-url":"","setting.cors-origins":"","setting.credential-burst":"0","setting.credential-concurrency":"0","setting.credential-rate":"0","setting.db":"postgres://postgres@/test1?host=%2Ftmp%2Fpgtest786650321","setting.header-max":"16KiB","setting.idle-timeout":"2m","setting.incomplete-max":"512","setting.insecure-listen":"false","setting.listen":"127.0.0.1:0","setting.log-format":"text","setting.log-level":"access","setting.oidc-audience":"","setting.oidc-client-id":"","setting.oidc-client-scopes":"","setting.oidc-client-secret-file":"","setting.oidc-console-claim":"groups","setting.oidc-console-grants":"","setting.oidc-issuer":"","setting.oidc-name-claim":"sub","setting.oidc-scope-claim":"scope","setting.oidc-scopes":"","setting.pprof":"false","setting.print-tokens":"false","setting.proxy-protocol":"false","setting.queue-max":"8192","setting.request-timeout":"10s","setting.require-sync-standby":"false","setting.s3-endpoint":"","setting.s3-instance-role":"false","setting.s3-region":"","setting.tls-cert":"","setting.tls-key":"","setting.trusted-proxies":"","setting.wal-max":"64MiB","setting.webhook-allow-private":"false","setting.webhook-concurrency":"16","setting.webhook-give-up":"3d","setting.webhook-keep":"30d","setting.webhook-rate":"500","setting.webhook-secret-file":"","setting.webhook-timeout":"10s","setting.webhook-url":"","source.admin-listen":"--admin-listen","source.db":"--db","source.listen":"--listen","version":"1.0.0-dev"},"sequence":5,"time":"2026-11-23T23:08:34.175583Z"}', '\x6b0065820dbbe23ab62652faea1c092c3ab52b797334fc76ae1b4304c012b684', '\xc4b5aa59d3a8cc327d0604308ec94d93c773201ffaab4dea278fef3fd2ed6a81');
INSERT INTO public.plantstore_audit VALUES (6, '{"action":"server.stop","actor":{"id":"0","kind":"user","name":"root"},"details":{},"sequence":6,"time":"2026-11-23T23:08:34.231268Z"}', '\xc4b5aa59d3a8cc327d0604308ec94d93c773201ffaab4dea278fef3fd2ed6a81', '\xa4374979aab6a485429b5419191870d25e8a71dceec7f774be61a9c4c1a726a9');
INSERT INTO public.tokens VALUES (3, NULL, 'guest', '\x6e1f8c177eee23cda4d2b5df37afef9fee8bffc0e80aa0259d8d32f6abc80448', 'pst_KggM', NULL, NULL, 'plants:create', '2026-11-23 23:08:34.076316+00', '2027-02-21 23:08:34.076316+00', NULL, NULL);
INSERT INTO public.tokens VALUES (2, NULL, 'lost', '\x14c1f791eb326e491445102e6706751b60ce53b2c8ae15b876be5c591b61ee04', 'pst_K9JM', NULL, NULL, 'plants:create', '2026-11-23 23:08:34.036675+00', NULL, NULL, '2026-11-23 23:08:34.110204+00');
INSERT INTO public.tokens VALUES (1, NULL, 'nursery', '\x1effff5bff13a28de9fde4a0e6edeaf3209e8ba71250671db891ba454ec1e3a6', 'pst_byp9', NULL, NULL, 'plants:create', '2026-11-23 23:08:34.011072+00', NULL, '2026-11-23 23:08:34.203077+00', NULL);
ALTER TABLE ONLY public.plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.plantstore_acme
    ADD CONSTRAINT plantstore_acme_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.plantstore_audit
    ADD CONSTRAINT plantstore_audit_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY public.plantstore_deliveries
    ADD CONSTRAINT plantstore_deliveries_pkey PRIMARY KEY (webhook, plant);
ALTER TABLE ONLY public.plantstore_outbox
    ADD CONSTRAINT plantstore_outbox_pkey PRIMARY KEY (created_at, plant);
ALTER TABLE ONLY public.plantstore
    ADD CONSTRAINT plantstore_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.plantstore_webhooks
    ADD CONSTRAINT plantstore_webhooks_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.plantstore_webhooks
    ADD CONSTRAINT plantstore_webhooks_url_key UNIQUE (url);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
CREATE INDEX plantstore_deliveries_due ON public.plantstore_deliveries USING btree (webhook, due_at);
