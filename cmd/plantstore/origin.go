package main

import (
	"os"
	"os/user"
	"strconv"

	"plantstore/internal/audit"
)

// operator returns the origin of a command's entries in the audit log: the user who runs it. SUDO_USER is a claim of
// the environment, because sudo is not the only program that can set it.
func (p *program) operator() audit.Origin {
	actor := audit.Actor{Kind: audit.User, ID: strconv.Itoa(os.Getuid()), SudoUser: p.env.Vars["SUDO_USER"]}
	if u, err := user.LookupId(actor.ID); err == nil {
		actor.Name = u.Username
	}
	return audit.Origin{Actor: actor}
}
