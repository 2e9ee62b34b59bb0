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
    revoked_at timestamp with time zone
);
INSERT INTO public.plants VALUES (-9223372036854775808, 'first', NULL, '2026-11-22 14:02:32.844108+00', 1);
INSERT INTO public.plants VALUES (-1, 'Weißdorn', '"hedge", 2 m', '2026-11-22 14:02:32.874489+00', 1);
INSERT INTO public.plants VALUES (1, 'ばら 🌹', '', '2026-11-22 14:02:32.885113+00', 1);
INSERT INTO public.plants VALUES (9223372036854775807, 'last', 'edge', '2026-11-22 14:02:32.892031+00', 1);
INSERT INTO public.plantstore VALUES (true, 1, 4);
INSERT INTO public.tokens VALUES (3, 'guest', '\xc5f26ff7315bbcfb02c322aa620de7f96f45492d1467da90b7046c16d99219be', 'plants:create', '2026-11-22 14:02:32.774971+00', '2027-02-20 14:02:32.774971+00', NULL, NULL);
INSERT INTO public.tokens VALUES (2, 'lost', '\x51852c7c7827f408ed613f09f190377ccb347f43102350bb8c2c1c6df7329f4c', 'plants:create', '2026-11-22 14:02:32.73927+00', NULL, NULL, '2026-11-22 14:02:32.794525+00');
INSERT INTO public.tokens VALUES (1, 'nursery', '\xd7878fd190900f94689ecf7df9092208e1b2335cd1eaf88663fc7e25038e77d6', 'plants:create', '2026-11-22 14:02:32.637314+00', NULL, '2026-11-22 14:02:32.844094+00', NULL);
ALTER TABLE ONLY public.plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.plantstore
    ADD CONSTRAINT plantstore_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
