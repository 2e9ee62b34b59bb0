package console

import (
	"cmp"
	"regexp"
	"strings"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// sentences say what the events of the audit log are. {by} is the actor, {address} the client's address, {settings} the
// names of the settings, {person} the person of a token of the console, and any other name a detail. A part in brackets
// is left out without its details, or if one is 0. Of several sentences, the first one that has its details counts.
var sentences = map[audit.Action]string{
	audit.TokenCreate:  "{by} created the token {token_name} ({scopes})",
	audit.TokenRotate:  "{by} replaced the token {token_name} by a new one",
	audit.TokenRevoke:  "{by} revoked the token {token_name}|{by} revoked the {kind} {identifier}",
	audit.TokenPrune:   "{by} removed the unused subject {token_name}",
	audit.StoreMigrate: "{by} migrated the store from schema {from_schema} to {to_schema}",
	audit.StoreMove:    "{by} moved the store from {from} to {to}[: {plants} plants]",
	audit.StoreReopen:  "{by} opened the store again after a move that was abandoned",
	audit.Prune:        "{by} removed {removed} old entries of the audit log",
	audit.EventsLost:   "The server could not record {count} events",

	audit.PlantsImport: "{by} imported {file}: {result}[, {created} new plants][, {conflicting} conflicts]" +
		"[, {invalid} invalid rows]",
	audit.PlantsExport:  "{by} exported {plants} plants ({file}): {result}",
	audit.PlantsErase:   "{by} erased {plants} plants[: {reason}]",
	audit.PlantsCorrect: "{by} corrected the plant {ids_1}[: {reason}]",
	audit.StoreBackup:   "{by} backed up the store[, {plants} plants,] to {file}: {result}",
	audit.BackupStart:   "{by} started the backup {file}",
	audit.StoreRestore:  "{by} restored the store from {file}[: {plants} plants]",

	audit.BackupDownload: "{by} downloaded the backup {file}",
	audit.BackupDelete:   "{by} deleted the backup {file}",
	audit.BackupDrill:    "{by} restored the backup {file} as a drill: {result}",

	audit.ServerStart:   "{by} started the server, version {version}",
	audit.ServerReload:  "{by} changed the settings {settings} of the running server",
	audit.ServerStop:    "{by} stopped the server",
	audit.ScopeRefused:  "The server refused a request of {by}, who lacks the scope {scope}",
	audit.SignIn:        "{by} signed in to the console by {console}|{by} used the admin listener from {address}",
	audit.SignInRefused: "{by} could not sign in to the console by {console}",
	audit.RequestEnded:  "A request of {by} ended with its credential: {request} ({reason})",
	audit.WebhookChange: "{by} changed the webhooks[, added {added}][, removed {removed}]",
	audit.WebhookRetry:  "{by} retried {dead_letters} dead letters",
	audit.WebhookDrop:   "{by} dropped {dead_letters} dead letters",
}

// sessionSentences are the sentences about tokens of the console: of sign-in codes, and of sessions.
var sessionSentences = map[bool]map[audit.Action]string{
	true: {
		audit.TokenCreate: "{by} made a sign-in link[ for {person}]",
		audit.TokenRevoke: "{by} used or revoked a sign-in link",
	},
	false: {
		audit.TokenCreate: "A session of {by} in the console began",
		audit.TokenRevoke: "{by} ended a session[ of {person}] in the console",
	},
}

// part is a part of a sentence: a text of the table, or a value of the event.
type part struct {
	Text  string
	Value bool
}

var (
	optional = regexp.MustCompile(`\[[^\]]*\]`)
	variable = regexp.MustCompile(`\{(\w+)\}`)
	singular = strings.NewReplacer("plants", "plant", "entries", "entry", "letters", "letter", "events", "event",
		"conflicts", "conflict", "rows", "row")
)

// sentence returns an event as a sentence.
func sentence(e audit.Event) []part {
	values := valuesOf(e)
	has := func(text string) bool {
		for _, v := range variable.FindAllStringSubmatch(text, -1) {
			if values[v[1]] == "" {
				return false
			}
		}
		return true
	}
	text := cmp.Or(sentences[e.Action], string(e.Action)+" by {by}")
	if name := values["token_name"]; auth.IsSessionName(name) {
		text = cmp.Or(sessionSentences[values["scopes"] == auth.ScopeConsole.String()][e.Action], text)
	}
	for first, rest, more := strings.Cut(text, "|"); more; first, rest, more = strings.Cut(rest, "|") {
		if text = first; has(optional.ReplaceAllString(first, "")) {
			break
		}
		text = rest
	}
	text = optional.ReplaceAllStringFunc(text, func(part string) string {
		if v := variable.FindStringSubmatch(part); values[v[1]] == "" || values[v[1]] == "0" {
			return ""
		}
		return strings.Trim(part, "[]")
	})
	if values["count"] != "" && e.Action != audit.EventsLost {
		text += " ({count} times)"
	}
	return fill(text, values)
}

// fill returns the parts of a text with variables.
func fill(text string, values map[string]string) (parts []part) {
	value, end := "", 0
	add := func(text string) {
		if value == "1" {
			text = singular.Replace(text)
		}
		if text != "" {
			parts = append(parts, part{text, false})
		}
	}
	for _, at := range variable.FindAllStringSubmatchIndex(text, -1) {
		add(text[end:at[0]])
		value, end = cmp.Or(values[text[at[2]:at[3]]], "–"), at[1]
		parts = append(parts, part{value, true})
	}
	add(text[end:])
	return parts
}

// valuesOf returns the values of the variables.
func valuesOf(e audit.Event) map[string]string {
	a := e.Actor
	values := map[string]string{"by": cmp.Or(a.Name, a.ID, "Somebody"), "address": e.Address}
	if a.SudoUser != "" {
		values["by"] = a.SudoUser + " (as " + values["by"] + ")"
	}
	var settings []string
	for _, d := range e.Details {
		values[d.Key] = d.Value
		if name, ok := strings.CutPrefix(d.Key, "setting."); ok {
			settings = append(settings, name)
		}
	}
	values["settings"], values["person"] = strings.Join(settings, ", "), auth.PersonOf(values["token_name"])
	return values
}
