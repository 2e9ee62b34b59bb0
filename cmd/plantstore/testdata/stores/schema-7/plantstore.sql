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
    webhooks boolean,
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
    reason text
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
INSERT INTO public.plants VALUES (-9223372036854775808, 'first', NULL, '2026-11-22 14:05:04.761403+00', 1);
INSERT INTO public.plants VALUES (-1, 'Weißdorn', '"hedge", 2 m', '2026-11-22 14:05:04.767108+00', 1);
INSERT INTO public.plants VALUES (1, 'ばら 🌹', '', '2026-11-22 14:05:04.777923+00', 1);
INSERT INTO public.plants VALUES (9223372036854775807, 'last', 'edge', '2026-11-22 14:05:04.794564+00', 1);
INSERT INTO public.plantstore VALUES (true, 7, 4, NULL, 6, '\x9734831630b5a8426eb20ffdc3b0ef6803f6490b97adc72b4df3308383b6649f', NULL, NULL, NULL);
INSERT INTO public.plantstore_audit VALUES (1, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"1","token_name":"nursery"},"sequence":1,"time":"2026-11-22T14:05:04.123301Z"}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\x298f8dc39c80b61efe91dcdec95395f237f228739bb1cc7b4af75893b91a9b21');
INSERT INTO public.plantstore_audit VALUES (2, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":2,"time":"2026-11-22T14:05:04.191452Z"}', '\x298f8dc39c80b61efe91dcdec95395f237f228739bb1cc7b4af75893b91a9b21', '\xa2bfd29bc2c4abac6241c512d85858804c7047c96d2298a7ec63db1e841757c6');
INSERT INTO public.plantstore_audit VALUES (3, '{"action":"token.create","actor":{"id":"0","kind":"user","name":"root"},"details":{"expires_at":"2027-02-20T14:05:04Z","scopes":"plants:create","token_id":"3","token_name":"guest"},"sequence":3,"time":"2026-11-22T14:05:04.279530Z"}', '\xa2bfd29bc2c4abac6241c512d85858804c7047c96d2298a7ec63db1e841757c6', '\xb56983498b970c38be200d62f5b291949fcd2b741641bbe0ce81bba0f520b0e8');
INSERT INTO public.plantstore_audit VALUES (4, '{"action":"token.revoke","actor":{"id":"0","kind":"user","name":"root"},"details":{"scopes":"plants:create","token_id":"2","token_name":"lost"},"sequence":4,"time":"2026-11-22T14:05:04.355190Z"}', '\xb56983498b970c38be200d62f5b291949fcd2b741641bbe0ce81bba0f520b0e8', '\x8939dd40287f2e408c387eba1f7b0c6518cfc9335b5717982f0a6edf685de71e');
INSERT INTO public.plantstore_audit VALUES (5, '{"action":"server.start","actor":{"id":"0","kind":"user","name":"root"},"details":{"setting.acme-ca":"","setting.acme-directory":"https://acme-v02.api.letsencrypt.org/directory","setting.acme-domain":"","setting.acme-email":"","setting.acme-http-listen":"","setting.admin-host":"","setting.admin-listen":"127.0.0.1:0","setting.admin-open":"false","setting.answer-timeout":"20s","setting.audit-keep":"400d","setting.auth-failures":"30","setting.backup-dir":"","setting.backup-every":"1d","setting.backup-keep":"7","setting.base-url":"","setting.body-max":"64KiB","setting.client-ca":"","setting.config":"","setting.connections-max":"0","setting.connections-per-address":"1000","setting.console-url":"","setting.cors-origins":"","setting.credential-burst":"0","setting.credential-concurrency":"0","setting.credential-rate":"0","setting.db":"postgres://postgres@/test1?host=%2Ftmp%2Fpgtest3351699977","setting.header-max":"16KiB","setting.idle-timeout":"2m","setting.incomplete-max":"512","setting.insecure-listen":"false","setting.listen":"127.0.0.1:0","setting.log-format":"text","setting.log-level":"access","setting.oidc-audience":"","setting.oidc-client-id":"","setting.oidc-client-scopes":"","setting.oidc-client-secret-file":"","setting.oidc-console-claim":"groups","setting.oidc-console-grants":"","setting.oidc-issuer":"","setting.oidc-name-claim":"sub","setting.oidc-scope-claim":"scope","setting.oidc-scopes":"","setting.pprof":"false","setting.print-tokens":"false","setting.proxy-protocol":"false","setting.queue-max":"8192","setting.request-timeout":"10s","setting.require-sync-standby":"false","setting.s3-endpoint":"","setting.s3-instance-role":"false","setting.s3-region":"","setting.tls-cert":"","setting.tls-key":"","setting.trusted-proxies":"","setting.wal-max":"64MiB","setting.webhook-allow-private":"false","setting.webhook-concurrency":"16","setting.webhook-give-up":"3d","setting.webhook-keep":"30d","setting.webhook-rate":"500","setting.webhook-secret-file":"","setting.webhook-timeout":"10s","setting.webhook-url":"","source.admin-listen":"--admin-listen","source.db":"--db","source.listen":"--listen","version":"1.0.0-dev"},"sequence":5,"time":"2026-11-22T14:05:04.487407Z"}', '\x8939dd40287f2e408c387eba1f7b0c6518cfc9335b5717982f0a6edf685de71e', '\xff1a0c36a0babe1f2120f99ec1cab4609119dd4e9462c78a5f797eb6ac631bf3');
INSERT INTO public.plantstore_audit VALUES (6, '{"action":"server.stop","actor":{"id":"0","kind":"user","name":"root"},"details":{},"sequence":6,"time":"2026-11-22T14:05:04.800579Z"}', '\xff1a0c36a0babe1f2120f99ec1cab4609119dd4e9462c78a5f797eb6ac631bf3', '\x9734831630b5a8426eb20ffdc3b0ef6803f6490b97adc72b4df3308383b6649f');
INSERT INTO public.tokens VALUES (3, 'guest', '\x6499cdbfd9db4655dcb9da5b98f3ff23d107a1e96aac935841b838ead2ca83f2', 'plants:create', '2026-11-22 14:05:04.27953+00', '2027-02-20 14:05:04.27953+00', NULL, NULL, 'pst_IWNI', NULL, NULL, NULL);
INSERT INTO public.tokens VALUES (2, 'lost', '\xe1352fb251fd4bf5859465468980295a344f734689822e78ab98932d46834b82', 'plants:create', '2026-11-22 14:05:04.191452+00', NULL, NULL, '2026-11-22 14:05:04.35519+00', 'pst_nH44', NULL, NULL, NULL);
INSERT INTO public.tokens VALUES (1, 'nursery', '\xc0bf64ced7a3aac2bcfbd86e445dfdc3ee6520c69bc3d4ebd72530611bb49587', 'plants:create', '2026-11-22 14:05:04.123301+00', NULL, '2026-11-22 14:05:04.761387+00', NULL, 'pst_8Fnd', NULL, NULL, NULL);
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
