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
    revoked_at timestamp with time zone
);
INSERT INTO public.plants VALUES (-9223372036854775808, 'first', NULL, '2026-11-22 14:02:38.341963+00', 1);
INSERT INTO public.plants VALUES (-1, 'Weißdorn', '"hedge", 2 m', '2026-11-22 14:02:38.346477+00', 1);
INSERT INTO public.plants VALUES (1, 'ばら 🌹', '', '2026-11-22 14:02:38.354298+00', 1);
INSERT INTO public.plants VALUES (9223372036854775807, 'last', 'edge', '2026-11-22 14:02:38.416786+00', 1);
INSERT INTO public.plantstore VALUES (true, 2, 4, NULL);
INSERT INTO public.tokens VALUES (3, 'guest', '\x883298276ed38b9d8965e89ab55702bf037624f8f867c4657643b5875927eb77', 'plants:create', '2026-11-22 14:02:38.20854+00', '2027-02-20 14:02:38.20854+00', NULL, NULL);
INSERT INTO public.tokens VALUES (2, 'lost', '\xf65c876c64f8eb26ddbbffa85c9a4658d28123ac4ef18bab4073319165857eca', 'plants:create', '2026-11-22 14:02:38.183707+00', NULL, NULL, '2026-11-22 14:02:38.284276+00');
INSERT INTO public.tokens VALUES (1, 'nursery', '\xf2fb1f9068fba909248f14a624d143e677d26a90d1b668d377051dcad4574d5f', 'plants:create', '2026-11-22 14:02:38.071689+00', NULL, '2026-11-22 14:02:38.34195+00', NULL);
ALTER TABLE ONLY public.plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.plantstore
    ADD CONSTRAINT plantstore_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
