package plant

import "slices"

// Code is the number in an error body: the HTTP status times 100, plus a serial
// number. A released code never changes its meaning and is never reused.
type Code int32

// Status returns the HTTP status of the code.
func (c Code) Status() int { return int(c) / 100 }

// The codes. Catalogue returns the meaning of each.
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
	CodePlantDamaged      Code = 50002
	CodeQueueFull         Code = 50301
	CodeShuttingDown      Code = 50302
	CodeOutcomeUnknown    Code = 50303
	CodeStoreUnavailable  Code = 50304
	CodeStoreFull         Code = 50305
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

// Entry is a row of the catalogue. docs/reference/errors.md has the same rows, each with
// the remedy for a client; a test compares them.
type Entry struct {
	Code    Code
	Name    string // lower case, words joined by hyphens
	Meaning string
}

var catalogue = []Entry{
	{CodeBodyMissing, "body-missing", "The request has no body."},
	{CodeBodyNotJSON, "body-not-json", "The body is not one JSON value (RFC 8259). The message has the position."},
	{CodeBodyNotUTF8, "body-not-utf8", "The body is not valid UTF-8."},
	{CodeBodyTooDeep, "body-too-deep", "Arrays and objects of the body nest deeper than 64."},
	{CodeBodyNotObject, "body-not-object", "The body is JSON, but not an object."},
	{CodeMemberTwice, "member-twice", "An object has two members of the same name."},
	{CodeLoneSurrogate, "lone-surrogate", "A string escapes one half of a UTF-16 surrogate pair without the other."},
	{CodeIDMissing, "id-missing", "The plant has no id."},
	{CodeIDWrongType, "id-wrong-type", "id is not a number."},
	{CodeIDNotInteger, "id-not-integer", "id is a number with a fraction."},
	{CodeIDOutOfRange, "id-out-of-range", "id does not fit 64 bits."},
	{CodeNameMissing, "name-missing", "The plant has no name."},
	{CodeNameWrongType, "name-wrong-type", "name is not a string."},
	{CodeNameHasNUL, "name-has-nul", "name contains the character U+0000, which PostgreSQL cannot store."},
	{CodeTagWrongType, "tag-wrong-type", "tag is not a string."},
	{CodeTagHasNUL, "tag-has-nul", "tag contains the character U+0000, which PostgreSQL cannot store."},
	{
		CodeDifferentName, "exists-with-different-name",
		"The stored plant with this id has a different name. It is unchanged.",
	},
	{CodeDifferentTag, "exists-with-different-tag", "The stored plant with this id has a different tag. It is unchanged."},
	{CodeAuthMalformed, "authorization-malformed", "The Authorization header is malformed, or there is more than one."},
	{CodeBodyIncomplete, "body-incomplete", "The body ended before its announced length."},
	{
		CodeQueryInvalid, "query-invalid",
		"A parameter in the path or the query of the admin listener is invalid or unknown.",
	},
	{CodeInputInvalid, "input-invalid", "A member of the body of a request to the admin API is invalid or unknown."},
	{CodeCredentialMissing, "credential-missing", "The request has no bearer credential in its Authorization header."},
	{
		CodeCredentialInvalid, "credential-invalid",
		"The credential is unknown, expired or revoked. The log of the server has the reason.",
	},
	{CodeScopeMissing, "scope-missing", "The credential is valid, but does not have the scope of this operation."},
	{CodeCrossSite, "cross-site", "A web page of another site sent the request to the admin listener."},
	{CodeNotFound, "not-found", "The listener has no resource at this path."},
	{CodePlantNotFound, "plant-not-found", "The store has no plant with this id."},
	{CodeTokenNotFound, "token-not-found", "No such token, or it is not valid any more."},
	{CodeBackupNotFound, "backup-not-found", "The server has no backup of this name, or no job with this id."},
	{CodeImportNotFound, "import-not-found", "The server has no import with this id, or the credential may not see it."},
	{CodeMethodNotAllowed, "method-not-allowed", "The resource does not support this method."},
	{CodeRequestTimeout, "request-timeout", "The request did not arrive within the time limit. Nothing was stored."},
	{CodeProfileRunning, "profile-running", "The server is recording a profile of this kind already."},
	{CodeNameTaken, "name-taken", "A valid token has this name."},
	{CodeRevocationsFull, "revocations-full", "The store has as many revoked JWTs, or subjects, as it allows."},
	{CodeBackupsOff, "backups-off", "The server makes no backups."},
	{
		CodeBackupRunning, "backup-running",
		"The server runs as many backups, checks or downloads as it allows, or one of them uses this backup.",
	},
	{
		CodeBackupIncomplete, "backup-incomplete",
		"The file is not a complete backup of this store. The message has the reason.",
	},
	{
		CodeImportRunning, "import-running",
		"The server runs as many imports as it allows, or the id of the import is in use.",
	},
	{CodeImportStopped, "import-stopped", "The import ended before the end of the file, for the reason in the message."},
	{CodeBodyTooLarge, "body-too-large", "The body is larger than the limit. Nothing was stored."},
	{CodeMediaType, "media-type-unsupported", "The Content-Type is not application/json, or its charset is not utf-8."},
	{CodeContentEncoding, "content-encoding-unsupported", "The request has a Content-Encoding."},
	{CodeMisdirected, "misdirected", "The request names a host that this listener does not serve."},
	{CodeRateExceeded, "rate-exceeded", "The credential sent more requests than its rate allows. Nothing was stored."},
	{
		CodeTooManyFailures, "too-many-failures",
		"The address of the client sent too many failed credentials, or too many requests without one.",
	},
	{CodeTooManyAtOnce, "too-many-at-once", "The credential has too many requests at the same time. Nothing was stored."},
	{CodeInternal, "internal", "The server has a defect. Its log has the cause under the request id."},
	{CodePlantDamaged, "plant-damaged", "The stored plant with this id is damaged. It is unchanged."},
	{CodeQueueFull, "queue-full", "The queue is full, or the credential has its share of it. The plant was not stored."},
	{CodeShuttingDown, "shutting-down", "The server is shutting down. The plant was not stored."},
	{CodeOutcomeUnknown, "outcome-unknown", "The outcome of the commit is unknown: the plant may be stored."},
	{CodeStoreUnavailable, "store-unavailable", "The store is unavailable. The plant was not stored."},
	{CodeStoreFull, "store-full", "The disk of the store is full. The plant was not stored."},
	{
		CodeSearchesRunning, "searches-running",
		"The server runs as many searches of plants, or sends as many pages, as it allows.",
	},
}

// Catalogue returns every code that a client can receive, in ascending order. The
// caller owns the returned slice.
func Catalogue() []Entry { return slices.Clone(catalogue) }
