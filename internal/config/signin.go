package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
)

// ClientSecretVariable has the secret of the client. It is not a setting, because other users can read the command
// line, and config prints settings.
const ClientSecretVariable = VariablePrefix + "OIDC_CLIENT_SECRET"

func checkRequestedScope(item string) error {
	other := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' } // RFC 6749 section 3.3
	if item == "" || strings.ContainsFunc(item, other) {
		return fmt.Errorf("%q is not a scope; use a word such as groups", item)
	}
	return nil
}

func checkConsoleGrant(item string) error {
	const grantable = auth.ScopeAdmin | auth.ScopeRead | auth.ScopeCreate
	_, scopes, ok := parseGrant(item)
	if !ok {
		return fmt.Errorf("%q is not a grant; use the form plant-admins=admin", item)
	}
	if scopes&(auth.ScopeAdmin|auth.ScopeRead) == 0 || !grantable.Has(scopes) {
		return fmt.Errorf("%q grants no access to the console; after the equals sign use admin or plants:read, "+
			"and plants:create besides one of them", item)
	}
	return nil
}

// checkSignIn returns a usage error for an incomplete or invalid client of the issuer. It sets the scopes of the
// grants.
func (s *Settings) checkSignIn() error {
	if u := s.ConsoleURL; u != nil && u.Path != "" {
		return s.Fault("console-url", "the console has no path; got %q", u.String())
	}
	if s.OIDC.Issuer == "" || s.OIDC.ClientID == "" {
		return nil
	}
	c := &s.SignIn
	switch {
	case len(s.consoleGrants) == 0:
		return s.Fault("oidc-client-id", "no person could sign in; set oidc-console-grants")
	case c.Claim == "":
		return s.Fault("oidc-console-claim", "it must not be empty with oidc-client-id")
	case len(c.Scopes) > 0 && !slices.Contains(c.Scopes, "openid"):
		return s.Fault("oidc-client-scopes", "openid is missing; without it the issuer sends no ID token")
	}
	if u := s.ConsoleURL; u != nil {
		if err := oidc.CheckIssuer(u.String()); err != nil {
			return s.Fault("console-url", "the issuer would send codes without TLS: %w", err)
		}
	}
	c.Grants = grants(s.consoleGrants)
	return nil
}

func (s *Settings) readClientSecret(env *Environment) error {
	if s.OIDC.Issuer == "" || s.OIDC.ClientID == "" {
		return nil
	}
	secret, given, err := s.secretOf(env, ClientSecretVariable, "oidc-client-secret-file", s.clientSecretFile)
	if s.SignIn.Secret = strings.TrimSpace(secret); err == nil && given && s.SignIn.Secret == "" {
		return s.Fault("oidc-client-id", "the secret of the client is empty")
	}
	return err
}

// secretOf returns a secret of a variable or of the file of a setting, and whether one of them has it.
func (s *Settings) secretOf(env *Environment, variable, setting, file string) (secret string, given bool, err error) {
	secret, given = env.Vars[variable]
	switch {
	case file == "":
		return secret, given, nil
	case given:
		return "", false, s.Fault(setting, "the variable %s has the secret, too; unset one of them", variable)
	}
	if secret, err = readSecretFile(file); err != nil {
		return "", false, s.Fault(setting, "%w", err)
	}
	return secret, true, nil
}

// readSecretFile reads a regular file that only its owner and group can read. Its errors omit the name, which
// may be the secret itself.
func readSecretFile(path string) (string, error) {
	const bytesMax = 1 << 10
	text, err := ReadRegular(path)
	if cause := (*os.PathError)(nil); errors.As(err, &cause) {
		return "", fmt.Errorf("could not open the file: %w; the setting is the name of a file with the secret", cause.Err)
	}
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("other users can read the file (mode %04o); run chmod 600 on it", info.Mode().Perm())
	}
	if len(text) > bytesMax {
		return "", fmt.Errorf("the file is longer than %d bytes", bytesMax)
	}
	return string(text), nil
}

// ReadRegular reads the first MiB of a regular file, or of a symbolic link to one. It does not wait for the writer of a
// FIFO.
func ReadRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, fileBytesMax))
}
