package main

import "golang.org/x/sys/unix"

// refuseDumps keeps the memory of the process out of core dumps, and from other processes of the same user: the secrets
// of clients, of the database and of TLS are in it. A limit of core dumps would not suffice, because the kernel ignores
// it for dumps that a program receives (core(5)).
func refuseDumps() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
