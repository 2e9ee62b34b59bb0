package plant

import "slices"

// Code is the number in an error body: the HTTP status times 100, plus a serial
// number. A released code never changes its meaning and is never reused.
type Code int32

// Status returns the HTTP status of the code.
func (c Code) Status() int { return int(c) / 100 }

// The codes. Catalogue returns the meaning of each and the remedy for a client.
// 40103 (expired) and 40104 (revoked) are reserved: versions before 1.0.0 sent them.
// Their response is now 40102, because a response must not tell whether a credential
// was ever valid.
const (
	CodeBodyMissing       Code = 40001
	CodeBodyNotJSON       Code = 40002
	CodeBodyNotUTF8       Code = 40003
	CodeBodyTooDeep       Code = 40004
	CodeBodyNotObject     Code = 40005
	CodeMemberTwice       Code = 40006
	CodeLoneSurrogate     Code = 40007
	CodeIDMissing         Code = 40011
	CodeIDWrongType       Code = 40012
	CodeIDNotInteger      Code = 40013
	CodeIDOutOfRange      Code = 40014
	CodeNameMissing       Code = 40021
	CodeNameWrongType     Code = 40022
	CodeNameHasNUL        Code = 40023
	CodeTagWrongType      Code = 40031
	CodeTagHasNUL         Code = 40032
	CodeDifferentName     Code = 40041
	CodeDifferentTag      Code = 40042
	CodeAuthMalformed     Code = 40051
	CodeBodyIncomplete    Code = 40053
	CodeQueryInvalid      Code = 40061
	CodeInputInvalid      Code = 40062
	CodeCredentialMissing Code = 40101
	CodeCredentialInvalid Code = 40102
	CodeScopeMissing      Code = 40301
	CodeCrossSite         Code = 40302
	CodeNotFound          Code = 40401
	CodePlantNotFound     Code = 40402
	CodeTokenNotFound     Code = 40403
	CodeBackupNotFound    Code = 40404
	CodeImportNotFound    Code = 40405
	CodeMethodNotAllowed  Code = 40501
	CodeRequestTimeout    Code = 40801
	CodeProfileRunning    Code = 40901
	CodeNameTaken         Code = 40902
	CodeRevocationsFull   Code = 40903
	CodeBackupsOff        Code = 40904
	CodeBackupRunning     Code = 40905
	CodeBackupIncomplete  Code = 40906
	CodeImportRunning     Code = 40907
	CodeImportStopped     Code = 40908
	CodeBodyTooLarge      Code = 41301
	CodeMediaType         Code = 41501
	CodeContentEncoding   Code = 41502
	CodeMisdirected       Code = 42101
	CodeRateExceeded      Code = 42901
	CodeTooManyFailures   Code = 42902
	CodeTooManyAtOnce     Code = 42903
	CodeInternal          Code = 50001
	CodeQueueFull         Code = 50301
	CodeShuttingDown      Code = 50302
	CodeOutcomeUnknown    Code = 50303
	CodeStoreUnavailable  Code = 50304
	CodeStoreFull         Code = 50305
	CodeStoreReadOnly     Code = 50306
	CodeSearchesRunning   Code = 50307
)

// AdminOnly reports whether only the admin listener returns the code. The API
// document of the public operation omits these codes.
func (c Code) AdminOnly() bool {
	switch c {
	case CodeQueryInvalid, CodeInputInvalid, CodeCrossSite, CodePlantNotFound, CodeTokenNotFound, CodeBackupNotFound,
		CodeProfileRunning, CodeNameTaken, CodeRevocationsFull, CodeBackupsOff, CodeBackupRunning, CodeBackupIncomplete,
		CodeSearchesRunning, CodeImportNotFound, CodeImportRunning, CodeImportStopped:
		return true
	}
	return false
}

// Entry is a row of the catalogue. docs/reference/errors.md is this table; a test
// compares them.
type Entry struct {
	Code    Code
	Name    string // lower case, words joined by hyphens
	Meaning string
	Remedy  string // for the client
}

const (
	fixBody      = "Correct the body and send the request again."
	otherContent = "Use another id, or send the stored content."
	retry        = "Send the same request again after the seconds in Retry-After."
	askOperator  = "Ask the operator of the store for a token."
)

var catalogue = []Entry{
	{
		CodeBodyMissing, "body-missing", "The request has no body.",
		"Send a JSON object with id, name and an optional tag.",
	},
	{
		CodeBodyNotJSON, "body-not-json", "The body is not one JSON value (RFC 8259). The message has the position.",
		fixBody,
	},
	{CodeBodyNotUTF8, "body-not-utf8", "The body is not valid UTF-8.", "Encode the body as UTF-8."},
	{CodeBodyTooDeep, "body-too-deep", "Arrays and objects of the body nest deeper than 64.", fixBody},
	{
		CodeBodyNotObject, "body-not-object", "The body is JSON, but not an object.",
		"Send one object; each request creates one plant.",
	},
	{CodeMemberTwice, "member-twice", "An object has two members of the same name.", fixBody},
	{
		CodeLoneSurrogate, "lone-surrogate",
		"A string escapes one half of a UTF-16 surrogate pair without the other.",
		"Escape the whole pair, or send the character itself in UTF-8.",
	},
	{
		CodeIDMissing, "id-missing", "The plant has no id.",
		"Send a 64-bit integer as id. Member names are case-sensitive.",
	},
	{CodeIDWrongType, "id-wrong-type", "id is not a number.", "Send id as a JSON number, without quotes."},
	{CodeIDNotInteger, "id-not-integer", "id is a number with a fraction.", "Send an integer."},
	{
		CodeIDOutOfRange, "id-out-of-range", "id does not fit 64 bits.",
		"Send an id from -9223372036854775808 to 9223372036854775807.",
	},
	{
		CodeNameMissing, "name-missing", "The plant has no name.",
		"Send a string as name; it may be empty. Member names are case-sensitive.",
	},
	{CodeNameWrongType, "name-wrong-type", "name is not a string.", "Send name as a JSON string."},
	{
		CodeNameHasNUL, "name-has-nul", "name contains the character U+0000, which PostgreSQL cannot store.",
		"Remove the character.",
	},
	{
		CodeTagWrongType, "tag-wrong-type", "tag is not a string.",
		"Send tag as a JSON string. For a plant without a tag, omit the member; null is not a tag.",
	},
	{
		CodeTagHasNUL, "tag-has-nul", "tag contains the character U+0000, which PostgreSQL cannot store.",
		"Remove the character.",
	},
	{
		CodeDifferentName, "exists-with-different-name",
		"The stored plant with this id has a different name. It is unchanged.",
		otherContent,
	},
	{
		CodeDifferentTag, "exists-with-different-tag",
		"The stored plant with this id has a different tag. It is unchanged.",
		otherContent,
	},
	{
		CodeAuthMalformed, "authorization-malformed",
		"The Authorization header is malformed, or there is more than one.",
		"Send one header of the form Authorization: Bearer TOKEN.",
	},
	{
		CodeBodyIncomplete, "body-incomplete", "The body ended before its announced length.",
		"Send the whole request again.",
	},
	{
		CodeQueryInvalid, "query-invalid",
		"A parameter in the path or the query of the admin listener is invalid or unknown.", "Correct the parameter.",
	},
	{
		CodeInputInvalid, "input-invalid", "A member of the body of a request to the admin API is invalid or unknown.",
		"Correct the member.",
	},
	{
		CodeCredentialMissing, "credential-missing",
		"The request has no bearer credential in its Authorization header.",
		askOperator,
	},
	{
		CodeCredentialInvalid, "credential-invalid",
		"The credential is unknown, expired or revoked. The log of the server has the reason.",
		"Send the whole token. " + askOperator,
	},
	{
		CodeScopeMissing, "scope-missing", "The credential is valid, but does not have the scope of this operation.",
		"Ask the operator of the store for a token with the scope in the WWW-Authenticate header.",
	},
	{
		CodeCrossSite, "cross-site", "A web page of another site sent the request to the admin listener.",
		"Open the address of the admin listener itself, or use a program that is not a browser.",
	},
	{
		CodeNotFound, "not-found", "The listener has no resource at this path.",
		"Check the path. The path to create plants is {base_url}/plants.",
	},
	{
		CodePlantNotFound, "plant-not-found", "The store has no plant with this id.", "Check the id.",
	},
	{
		CodeTokenNotFound, "token-not-found", "No such token, or it is not valid any more.",
		"Compare the request with the list of credentials.",
	},
	{
		CodeBackupNotFound, "backup-not-found", "The server has no backup of this name, or no job with this id.",
		"Compare the request with the list of backups or of jobs.",
	},
	{
		CodeImportNotFound, "import-not-found",
		"The server has no import with this id, or the credential may not see it.",
		"Compare the request with the list of imports.",
	},
	{
		CodeMethodNotAllowed, "method-not-allowed", "The resource does not support this method.",
		"Use a method of the Allow header.",
	},
	{
		CodeRequestTimeout, "request-timeout",
		"The request did not arrive within the time limit. Nothing was stored.",
		"Send the request again, faster.",
	},
	{
		CodeProfileRunning, "profile-running", "The server is recording a profile of this kind already.",
		"Send the request again when that profile has ended.",
	},
	{
		CodeNameTaken, "name-taken", "A valid token has this name.", "Use another name, or rotate the token.",
	},
	{
		CodeRevocationsFull, "revocations-full",
		"The store has as many revoked JWTs, or subjects, as it allows.",
		"Revoke the subject instead of the JWT, or lock it out at the issuer.",
	},
	{
		CodeBackupsOff, "backups-off", "The server makes no backups.",
		"Start it with `--backup-dir`. PostgreSQL has tools of its own.",
	},
	{
		CodeBackupRunning, "backup-running",
		"The server runs as many backups, checks or downloads as it allows, or one of them uses this backup.",
		"Send the request again when the other one has ended.",
	},
	{
		CodeBackupIncomplete, "backup-incomplete",
		"The file is not a complete backup of this store. The message has the reason.",
		"Use another backup.",
	},
	{
		CodeImportRunning, "import-running",
		"The server runs as many imports as it allows, or the id of the import is in use.",
		"Wait for the end of the other import, or cancel it. Use another id.",
	},
	{
		CodeImportStopped, "import-stopped",
		"The import ended before the end of the file, for the reason in the message.",
		"Remove the reason and send the file again: stored plants count as existing.",
	},
	{
		CodeBodyTooLarge, "body-too-large", "The body is larger than the limit. Nothing was stored.",
		"Send a smaller body.",
	},
	{
		CodeMediaType, "media-type-unsupported",
		"The Content-Type is not application/json, or its charset is not utf-8.",
		"Send Content-Type: application/json.",
	},
	{
		CodeContentEncoding, "content-encoding-unsupported", "The request has a Content-Encoding.",
		"Send the body unencoded, without this header.",
	},
	{
		CodeMisdirected, "misdirected", "The request names a host that this listener does not serve.",
		"Send it to the base URL. For the admin listener, use its address or a name of `--admin-host`.",
	},
	{
		CodeRateExceeded, "rate-exceeded",
		"The credential sent more requests than its rate allows. Nothing was stored.", retry,
	},
	{
		CodeTooManyFailures, "too-many-failures",
		"The address of the client sent too many failed credentials, or too many requests without one.",
		"Correct the credential. Send the request again after the seconds in Retry-After.",
	},
	{
		CodeTooManyAtOnce, "too-many-at-once",
		"The credential has too many requests at the same time. Nothing was stored.", retry,
	},
	{CodeInternal, "internal", "The server has a defect. Its log has the cause under the request id.", retry},
	{
		CodeQueueFull, "queue-full",
		"The queue is full, or the credential has its share of it. The plant was not stored.", retry,
	},
	{CodeShuttingDown, "shutting-down", "The server is shutting down. The plant was not stored.", retry},
	{CodeOutcomeUnknown, "outcome-unknown", "The outcome of the commit is unknown: the plant may be stored.", retry},
	{CodeStoreUnavailable, "store-unavailable", "The store is unavailable. The plant was not stored.", retry},
	{CodeStoreFull, "store-full", "The disk of the store is full. The plant was not stored.", retry},
	{CodeStoreReadOnly, "store-read-only", "A move has made the store read-only. The plant was not stored.", retry},
	{
		CodeSearchesRunning, "searches-running",
		"The server runs as many searches of plants, or sends as many pages, as it allows.", retry,
	},
}

// Catalogue returns every code that a client can receive, in ascending order. The
// caller owns the returned slice.
func Catalogue() []Entry { return slices.Clone(catalogue) }
