package config

import (
	"fmt"
	"slices"
	"strings"

	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

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

// checkWebhook returns a usage error for unusable settings. It reads the secrets.
func (s *Settings) checkWebhook(env *Environment) error {
	w := &s.Webhook
	if len(w.URLs) == 0 {
		return s.refuseUnused("it has no effect without a URL; set webhook-url", "webhook-")
	}
	if err := checkURLs(w); err != nil {
		return s.Fault("webhook-url", "%w", err)
	}
	text, given, err := s.secretOf(env, WebhookSecretVariable, SecretFileSetting, s.webhookSecretFile)
	switch {
	case err != nil:
		return err
	case !given:
		return s.Fault("webhook-url", "the secret that signs the events is missing; set webhook-secret-file or %s",
			WebhookSecretVariable)
	}
	w.Secrets, err = webhook.ParseSecrets(text)
	switch {
	case err != nil && s.webhookSecretFile == "":
		return Usagef("%s: %w", WebhookSecretVariable, err)
	case err != nil:
		return s.Fault(SecretFileSetting, "%w", err)
	}
	return nil
}

// checkURLs returns an error for a URL that cannot receive events. The messages omit the query of a URL, which
// may be a secret.
func checkURLs(w *webhook.Config) error {
	urls := w.URLs
	if len(urls) > webhook.URLsMax {
		return fmt.Errorf("there are %d URLs; use at most %d", len(urls), webhook.URLsMax)
	}
	for i, url := range urls {
		address := store.WebhookAddress(url)
		if err := webhook.CheckURL(url, w.AllowPrivate); err != nil {
			return fmt.Errorf("%q: %w", address, err)
		}
		if slices.ContainsFunc(urls[:i], func(u string) bool { return store.WebhookAddress(u) == address }) {
			return fmt.Errorf("%q is listed twice; URLs must differ before a question mark", address)
		}
	}
	return nil
}
