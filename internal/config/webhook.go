package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// WebhookSecretVariable has the secrets of the webhooks. It is not a setting, because other users can read the command
// line, and config prints settings.
const WebhookSecretVariable = VariablePrefix + "WEBHOOK_SECRET"

// SecretFileSetting is the setting whose file may change without its name.
const SecretFileSetting = "webhook-secret-file"

const heartbeatSetting, warningSetting = "heartbeat-url", "warning-url"

// urlWithSecret is a URL that checkNotifications checks.
func urlWithSecret(to *string) pflag.Value {
	v := text(to).(*value[string])
	v.show = hidePath
	return v
}

// hidePath returns a URL for outputs, without its path, which is a secret at most services.
func hidePath(text string) string {
	switch u, err := url.Parse(text); {
	case text == "":
		return ""
	case err != nil || u.Host == "":
		return "xxxxx"
	default:
		return u.Scheme + "://" + u.Host + "/xxxxx"
	}
}

// hideInURL returns the URL of a webhook for outputs, without the parts that may have a secret.
func hideInURL(text string) string {
	shown := store.WebhookAddress(text)
	if strings.Contains(text, "?") {
		shown += "?xxxxx" // as in the address of a store
	}
	return shown
}

// hasReceivers reports whether the settings have a URL of webhooks or of notifications.
func (s *Settings) hasReceivers() bool {
	return len(s.Webhook.URLs) > 0 || s.HeartbeatURL+s.WarningURL != ""
}

// checkWebhook returns the usage errors of unusable settings. It reads the secrets.
func (s *Settings) checkWebhook(env *Environment) error {
	if !s.hasReceivers() {
		return nil
	}
	fault := s.checkNotifications()
	if err := checkURLs(&s.Webhook); err != nil {
		fault = errors.Join(fault, s.Fault("webhook-url", "%w", err))
	}
	return errors.Join(fault, s.readWebhookSecrets(env))
}

func (s *Settings) readWebhookSecrets(env *Environment) error {
	w := &s.Webhook
	text, given, err := s.secretOf(env, WebhookSecretVariable, SecretFileSetting, s.webhookSecretFile)
	switch {
	case err != nil:
		return err
	case !given && len(w.URLs) == 0: // warnings may have no signature
		w.Secrets = nil
		return nil
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

// checkNotifications returns a usage error for an unusable URL of the notifications.
func (s *Settings) checkNotifications() error {
	check := optional(func(text string) error { return webhook.CheckURL(text, s.Webhook.AllowPrivate) })
	if err := check(s.HeartbeatURL); err != nil {
		return s.Fault(heartbeatSetting, "%w", err)
	}
	if err := check(s.WarningURL); err != nil {
		return s.Fault(warningSetting, "%w", err)
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
	for i, text := range urls {
		address := store.WebhookAddress(text)
		if err := webhook.CheckURL(text, w.AllowPrivate); err != nil {
			return fmt.Errorf("%q: %w", address, err)
		}
		if slices.ContainsFunc(urls[:i], func(u string) bool { return store.WebhookAddress(u) == address }) {
			return fmt.Errorf("%q is listed twice; URLs must differ before a question mark", address)
		}
	}
	return nil
}
