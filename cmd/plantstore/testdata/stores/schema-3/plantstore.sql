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
    CONSTRAINT plantstore_one_check CHECK (one)
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
INSERT INTO public.plants VALUES (-9223372036854775808, 'first', NULL, '2026-11-22 14:02:44.933086+00', 1);
INSERT INTO public.plants VALUES (-1, 'Weißdorn', '"hedge", 2 m', '2026-11-22 14:02:44.937471+00', 1);
INSERT INTO public.plants VALUES (1, 'ばら 🌹', '', '2026-11-22 14:02:44.94582+00', 1);
INSERT INTO public.plants VALUES (9223372036854775807, 'last', 'edge', '2026-11-22 14:02:44.974551+00', 1);
INSERT INTO public.plantstore VALUES (true, 3, 4, NULL);
INSERT INTO public.tokens VALUES (3, 'guest', '\xe5b525b0a9b1604d166190615a53a430f7f79008d9810c6dba9eca257281796b', 'plants:create', '2026-11-22 14:02:44.444779+00', '2027-02-20 14:02:44.444779+00', NULL, NULL, 'pst_cDFY');
INSERT INTO public.tokens VALUES (2, 'lost', '\xda9d626a8277d46de8edca7d73faf29b2e9124a51c28cb3691568922ecbdf97f', 'plants:create', '2026-11-22 14:02:44.427663+00', NULL, NULL, '2026-11-22 14:02:44.523207+00', 'pst_ep3L');
INSERT INTO public.tokens VALUES (1, 'nursery', '\x00ff042caeaa72879a3ea1ba48f48ea15000cf880a26cf4d879a8b7e40208eb8', 'plants:create', '2026-11-22 14:02:44.37961+00', NULL, '2026-11-22 14:02:44.933034+00', NULL, 'pst_sdXS');
ALTER TABLE ONLY public.plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.plantstore
    ADD CONSTRAINT plantstore_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
