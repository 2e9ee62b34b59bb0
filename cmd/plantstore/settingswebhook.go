package main

import (
	"fmt"
	"slices"
	"strings"

	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// webhookSettings are the settings of the webhooks of a server.
type webhookSettings struct {
	urls         list
	secretFile   text
	allowPrivate toggle
	rate         count
	giveUp       timeout

	secrets []webhook.Secret // set by check
}

// webhookSecretVariable has the secrets of the webhooks. It is not a setting, because other users can read the command
// line, and config prints settings.
const webhookSecretVariable = environPrefix + "WEBHOOK_SECRET"

const secretFileSetting = "webhook-secret-file"

// hideInURL returns the URL of a webhook for outputs, without the parts that may have a secret.
func hideInURL(text string) string {
	shown := store.WebhookAddress(text)
	if strings.Contains(text, "?") {
		shown += "?xxxxx" // as in the address of a store
	}
	return shown
}

func (w *webhookSettings) rows() []setting {
	return []setting{
		{
			"webhook-url", w.urls.of(func(string) error { return nil }).shownBy(hideInURL), "", "1.0.0",
			"`URLs` that receive an event for each created plant; empty: none",
			"At most 16 https URLs. The server that started last sets the URLs of its store, also if it has none: " +
				"give all servers of a store the same ones. Outputs hide the query, which may have a secret; other users can " +
				"read it on the command line. See [webhooks](webhooks.md).",
		},
		{
			secretFileSetting, &w.secretFile, "", "1.0.0", "`file` with the secret that signs the events",
			"The secret is `whsec_` and 24 to 64 random bytes in base64. During a rotation the file has two, and both sign. " +
				"The variable `" + webhookSecretVariable + "` can have the secrets instead.",
		},
		{
			"webhook-allow-private", &w.allowPrivate, "", "1.0.0", "deliver also to private addresses and over http",
			"Without it, the server connects to public addresses only, also if a name has another one. Set it for " +
				"receivers in your own network.",
		},
		{
			"webhook-rate", w.rate.between(1, 1<<20), "500", "1.0.0", "number of `attempts` a second, to all URLs",
			"Events that are created faster wait in the store.",
		},
		{
			"webhook-give-up", &w.giveUp, "3d", "1.0.0", "`age` at which an undelivered event becomes a dead letter",
			"See [dead letters](webhooks.md#dead-letters).",
		},
	}
}

// check returns a usage error for unusable settings. It reads the secrets.
func (w *webhookSettings) check(p *program, s *settings) error {
	if len(w.urls.items) == 0 {
		for _, row := range w.rows()[1:] {
			if value := row.value.String(); value != row.initial && !(row.initial == "" && value == "false") {
				return s.fault(row.name, "it has no effect without a URL; set webhook-url")
			}
		}
		return nil
	}
	if err := w.checkURLs(); err != nil {
		return s.fault("webhook-url", "%w", err)
	}
	text, fromVariable := p.environ[webhookSecretVariable]
	switch {
	case w.secretFile == "" && !fromVariable:
		return s.fault("webhook-url", "the secret that signs the events is missing; set webhook-secret-file or %s",
			webhookSecretVariable)
	case w.secretFile != "" && fromVariable:
		return s.fault(secretFileSetting, "the variable %s has the secret, too; unset one of them", webhookSecretVariable)
	case fromVariable:
		secrets, err := webhook.ParseSecrets(text)
		w.secrets = secrets
		if err != nil {
			return usagef("%s: %w", webhookSecretVariable, err)
		}
		return nil
	}
	text, err := readSecretFile(string(w.secretFile))
	if err == nil {
		w.secrets, err = webhook.ParseSecrets(text)
	}
	if err != nil {
		return s.fault(secretFileSetting, "%w", err)
	}
	return nil
}

// checkURLs returns an error for a URL that cannot be that of a webhook. The messages have no URL with a query, which
// may be a secret.
func (w *webhookSettings) checkURLs() error {
	urls := w.urls.items
	if len(urls) > webhook.URLsMax {
		return fmt.Errorf("there are %d URLs; use at most %d", len(urls), webhook.URLsMax)
	}
	for i, url := range urls {
		address := store.WebhookAddress(url)
		if err := webhook.CheckURL(url, bool(w.allowPrivate)); err != nil {
			return fmt.Errorf("%q: %w", address, err)
		}
		if slices.ContainsFunc(urls[:i], func(u string) bool { return store.WebhookAddress(u) == address }) {
			return fmt.Errorf("%q is there twice; URLs must differ before a question mark", address)
		}
	}
	return nil
}
