package config

import (
	"fmt"
	"slices"
	"strings"

	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// Webhook are the settings of the webhooks of a server.
type Webhook struct {
	URLs         List
	SecretFile   Text
	AllowPrivate Toggle
	Rate         Count
	GiveUp       Timeout

	Secrets []webhook.Secret // set by check
}

// WebhookSecretVariable has the secrets of the webhooks. It is not a setting, because other users can read the command
// line, and config prints settings.
const WebhookSecretVariable = VariablePrefix + "WEBHOOK_SECRET"

// SecretFileSetting is the setting whose file may change without its name.
const SecretFileSetting = "webhook-secret-file"

// hideInURL returns the URL of a webhook for outputs, without the parts that may have a secret.
func hideInURL(text string) string {
	shown := store.WebhookAddress(text)
	if strings.Contains(text, "?") {
		shown += "?xxxxx" // as in the address of a store
	}
	return shown
}

func (w *Webhook) rows() []Setting {
	return []Setting{
		{
			"webhook-url", w.URLs.of(func(string) error { return nil }).shownBy(hideInURL), "",
			"`URLs` that receive an event for each created plant; empty: none",
			"At most 16 https URLs. The server that started last sets the URLs of its store, even to none: " +
				"give all servers of a store the same ones. Outputs hide the query, which may have a secret; other users can " +
				"read it on the command line. See [webhooks](webhooks.md).",
		},
		{
			SecretFileSetting, &w.SecretFile, "", "`file` with the secret that signs the events",
			"The secret is `whsec_` and 24 to 64 random bytes in base64. During a rotation the file has two, and both sign. " +
				"The variable `" + WebhookSecretVariable + "` can have the secrets instead.",
		},
		{
			"webhook-allow-private", &w.AllowPrivate, "", "deliver also to private addresses and over http",
			"Without it, the server connects to public addresses only, whatever a name resolves to. Set it for " +
				"receivers in your own network.",
		},
		{
			"webhook-rate", w.Rate.between(1, 1<<20), "500", "number of `attempts` a second, to all URLs",
			"Events that are created faster wait in the store.",
		},
		{
			"webhook-give-up", &w.GiveUp, "3d", "`age` at which an undelivered event becomes a dead letter",
			"See [dead letters](webhooks.md#dead-letters).",
		},
	}
}

// Check returns a usage error for unusable settings. It reads the secrets.
func (w *Webhook) Check(env *Environment, s *Settings) error {
	if len(w.URLs.Items) == 0 {
		for _, row := range w.rows()[1:] {
			if value := row.Value.String(); value != row.Initial && !(row.Initial == "" && value == "false") {
				return s.Fault(row.Name, "it has no effect without a URL; set webhook-url")
			}
		}
		return nil
	}
	if err := w.checkURLs(); err != nil {
		return s.Fault("webhook-url", "%w", err)
	}
	text, fromVariable := env.Vars[WebhookSecretVariable]
	switch {
	case w.SecretFile == "" && !fromVariable:
		return s.Fault("webhook-url", "the secret that signs the events is missing; set webhook-secret-file or %s",
			WebhookSecretVariable)
	case w.SecretFile != "" && fromVariable:
		return s.Fault(SecretFileSetting, "the variable %s has the secret, too; unset one of them", WebhookSecretVariable)
	case fromVariable:
		secrets, err := webhook.ParseSecrets(text)
		w.Secrets = secrets
		if err != nil {
			return Usagef("%s: %w", WebhookSecretVariable, err)
		}
		return nil
	}
	text, err := readSecretFile(string(w.SecretFile))
	if err == nil {
		w.Secrets, err = webhook.ParseSecrets(text)
	}
	if err != nil {
		return s.Fault(SecretFileSetting, "%w", err)
	}
	return nil
}

// checkURLs returns an error for a URL that cannot receive events. The messages omit the query of a URL, which
// may be a secret.
func (w *Webhook) checkURLs() error {
	urls := w.URLs.Items
	if len(urls) > webhook.URLsMax {
		return fmt.Errorf("there are %d URLs; use at most %d", len(urls), webhook.URLsMax)
	}
	for i, url := range urls {
		address := store.WebhookAddress(url)
		if err := webhook.CheckURL(url, bool(w.AllowPrivate)); err != nil {
			return fmt.Errorf("%q: %w", address, err)
		}
		if slices.ContainsFunc(urls[:i], func(u string) bool { return store.WebhookAddress(u) == address }) {
			return fmt.Errorf("%q is listed twice; URLs must differ before a question mark", address)
		}
	}
	return nil
}

// Equal reports whether settings have the same values and secrets.
func (w *Webhook) Equal(other *Webhook) bool {
	return w.SameSecrets(other) && slices.EqualFunc(w.rows(), other.rows(), func(a, b Setting) bool {
		return TextOf(a.Value) == TextOf(b.Value)
	})
}

// SameSecrets reports whether both have the same secrets, whatever their source.
func (w *Webhook) SameSecrets(other *Webhook) bool {
	return slices.EqualFunc(w.Secrets, other.Secrets, webhook.Secret.Equal)
}
