package plant

import (
	"slices"
	"strings"
)

// Code is the number in an Error body: an HTTP status times 100, plus n. A
// number that was published never changes its meaning and is never used again.
type Code int32

// Status returns the HTTP status that goes with the code.
func (c Code) Status() int { return int(c) / 100 }

// The closed catalogue of codes. What each means, and what a client should do
// about it, stands in Catalogue.
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
	CodeRequestMalformed  Code = 40052
	CodeBodyIncomplete    Code = 40053
	CodeQueryInvalid      Code = 40061
	CodeCredentialMissing Code = 40101
	CodeCredentialUnknown Code = 40102
	CodeCredentialExpired Code = 40103
	CodeCredentialRevoked Code = 40104
	CodeScopeMissing      Code = 40301
	CodeCrossSite         Code = 40302
	CodeNotFound          Code = 40401
	CodeMethodNotAllowed  Code = 40501
	CodeRequestTimeout    Code = 40801
	CodeProfileRunning    Code = 40901
	CodeBodyTooLarge      Code = 41301
	CodeMediaType         Code = 41501
	CodeContentEncoding   Code = 41502
	CodeExpectationFailed Code = 41701
	CodeMisdirected       Code = 42101
	CodeHeadersTooLarge   Code = 43101
	CodeInternal          Code = 50001
	CodeTransferEncoding  Code = 50101
	CodeQueueFull         Code = 50301
	CodeShuttingDown      Code = 50302
	CodeOutcomeUnknown    Code = 50303
	CodeStoreUnavailable  Code = 50304
	CodeStoreFull         Code = 50305
	CodeStoreHeld         Code = 50306
	CodeHTTPVersion       Code = 50501
)

// AdminOnly reports whether only the admin listener answers with the code. The
// API document of the public operation leaves these codes out.
func (c Code) AdminOnly() bool {
	return c == CodeQueryInvalid || c == CodeCrossSite || c == CodeProfileRunning
}

// Entry is a row of the catalogue: a code, its name, what it means and what
// the client should do. docs/reference/errors.md is this table, and a test keeps it so.
type Entry struct {
	Code    Code
	Name    string // lower case, words joined by hyphens
	Meaning string
	Remedy  string
}

const (
	fixBody  = "Correct the body and send it again."
	retry    = "Send the same request again after the seconds in Retry-After: the same plant is never created twice."
	askAdmin = "Ask the operator of the store for a credential."
)

var catalogue = []Entry{
	{CodeBodyMissing, "body-missing", "The request has no body.", "Send a JSON object with id, name and, if wanted, tag."},
	{CodeBodyNotJSON, "body-not-json", "The body is not one JSON value as in RFC 8259; the message says at which byte.", fixBody},
	{CodeBodyNotUTF8, "body-not-utf8", "The body is not valid UTF-8.", "Encode the body as UTF-8."},
	{CodeBodyTooDeep, "body-too-deep", "The body nests arrays and objects deeper than 64.", fixBody},
	{CodeBodyNotObject, "body-not-object", "The body is JSON, but not an object.", "Send one plant as one object; there is no form for several."},
	{CodeMemberTwice, "member-twice", "An object has two members of the same name.", fixBody},
	{CodeLoneSurrogate, "lone-surrogate", "A string has half of a UTF-16 surrogate pair as an escape.", "Escape the whole pair, or send the character itself in UTF-8."},
	{CodeIDMissing, "id-missing", "The plant has no id.", "Send an id: an integer of 64 bits. Member names are case-sensitive."},
	{CodeIDWrongType, "id-wrong-type", "id is not a number.", "Send id as a JSON number, without quotes."},
	{CodeIDNotInteger, "id-not-integer", "id is a number with a fraction.", "Send a whole number."},
	{CodeIDOutOfRange, "id-out-of-range", "id does not fit 64 bits.", "Send an id from -9223372036854775808 to 9223372036854775807."},
	{CodeNameMissing, "name-missing", "The plant has no name.", "Send a name: a string, which may be empty. Member names are case-sensitive."},
	{CodeNameWrongType, "name-wrong-type", "name is not a string.", "Send name as a JSON string."},
	{CodeNameHasNUL, "name-has-nul", "name has the character U+0000, which not every engine can store.", "Leave the character out."},
	{CodeTagWrongType, "tag-wrong-type", "tag is not a string.", "Send tag as a JSON string, or leave it out for no tag; null is not a tag."},
	{CodeTagHasNUL, "tag-has-nul", "tag has the character U+0000, which not every engine can store.", "Leave the character out."},
	{CodeDifferentName, "exists-with-different-name", "A plant with this id is stored already, and its name is another. It stays as it is.", "Use another id, or send the stored content."},
	{CodeDifferentTag, "exists-with-different-tag", "A plant with this id is stored already, and its tag is another. It stays as it is.", "Use another id, or send the stored content."},
	{CodeAuthMalformed, "authorization-malformed", "The Authorization header cannot be read, or there is more than one.", "Send one header of the form Authorization: Bearer TOKEN."},
	{CodeRequestMalformed, "request-malformed", "The request is not HTTP as in RFC 9112.", "Correct the client."},
	{CodeBodyIncomplete, "body-incomplete", "The body ended before its announced end.", "Send the request again, whole."},
	{CodeQueryInvalid, "query-invalid", "A query parameter of the admin listener has a value that is not allowed.", "Correct the query."},
	{CodeCredentialMissing, "credential-missing", "The request has no bearer credential in its Authorization header.", askAdmin},
	{CodeCredentialUnknown, "credential-unknown", "The credential is none that this store issued.", "Check that it was copied whole. " + askAdmin},
	{CodeCredentialExpired, "credential-expired", "The credential's time is over.", askAdmin},
	{CodeCredentialRevoked, "credential-revoked", "The credential was revoked.", askAdmin},
	{CodeScopeMissing, "scope-missing", "The credential is valid, but not for this operation.", "Ask the operator for a credential with the scope in the WWW-Authenticate header."},
	{CodeCrossSite, "cross-site", "A web page of another site sent the request to the admin listener.", "Open the address itself, or use a program that is not a browser."},
	{CodeNotFound, "not-found", "Nothing is served at this path.", "Check the path: plants are created at {base_url}/plants."},
	{CodeMethodNotAllowed, "method-not-allowed", "The path is served, but not with this method.", "Use a method from the Allow header."},
	{CodeRequestTimeout, "request-timeout", "The request did not arrive whole in time.", "Send it again, faster. Nothing was stored."},
	{CodeProfileRunning, "profile-running", "A profile of this kind is being recorded.", "Send the request again when it has ended."},
	{CodeBodyTooLarge, "body-too-large", "The body is larger than the limit.", "Send a smaller body. Nothing was stored."},
	{CodeMediaType, "media-type-unsupported", "The body's media type is not application/json, or its charset is not utf-8.", "Send Content-Type: application/json."},
	{CodeContentEncoding, "content-encoding-unsupported", "The body is announced as compressed or otherwise encoded.", "Send the body as it is, without Content-Encoding."},
	{CodeExpectationFailed, "expectation-failed", "The Expect header asks for something other than 100-continue.", "Leave the header out."},
	{CodeMisdirected, "misdirected", "The request names a host that this listener does not serve.", "Send it to the base URL; on the admin listener, to its address or a name of `--admin-host`."},
	{CodeHeadersTooLarge, "headers-too-large", "The request line and headers are larger than the limit.", "Send fewer or shorter headers."},
	{CodeInternal, "internal", "The store has a defect. The log has the cause under the request id.", retry},
	{CodeTransferEncoding, "transfer-encoding-unsupported", "The request has a Transfer-Encoding other than chunked.", "Send a Content-Length, or chunked."},
	{CodeQueueFull, "queue-full", "More plants wait than the store takes. This one was not stored.", retry},
	{CodeShuttingDown, "shutting-down", "The store is shutting down. The plant was not stored.", retry},
	{CodeOutcomeUnknown, "outcome-unknown", "The store cannot tell whether the plant was stored.", retry},
	{CodeStoreUnavailable, "store-unavailable", "The store cannot write now. The plant was not stored.", retry},
	{CodeStoreFull, "store-full", "The store's disk is full. The plant was not stored.", retry},
	{CodeStoreHeld, "store-held", "All plants are being moved to another store, or were, and this one takes no more. The plant was not stored.", retry},
	{CodeHTTPVersion, "http-version-unsupported", "The request's HTTP version is not served.", "Use HTTP/1.1."},
}

// Catalogue returns every code that a client can be answered with, ascending.
// The caller owns the returned slice.
func Catalogue() []Entry { return slices.Clone(catalogue) }

// Error is a refusal as the client reads it: a code and a text without
// internals, which becomes the Error body.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// Faults gathers what is wrong with one plant, so that all of it can be said
// at once. The zero value is ready to use.
type Faults struct {
	list []Error
}

// Add notes a fault. The text says which member, what is wrong and what would
// be right.
func (f *Faults) Add(code Code, text string) {
	if len(f.list) < faultsMax {
		f.list = append(f.list, Error{Code: code, Message: text})
	}
}

// faultsMax bounds the message of a body that was made to have many faults.
const faultsMax = 16

// Err returns nil if there is no fault. Otherwise it returns an *Error that
// names every fault, in ascending order of their codes, under the first code.
func (f *Faults) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b Error) int { return int(a.Code - b.Code) })
	texts := make([]string, len(f.list))
	for i, fault := range f.list {
		texts[i] = fault.Message
	}
	return &Error{Code: f.list[0].Code, Message: strings.Join(texts, "; ")}
}

// Differences compares what was sent with what is stored under the same id. It
// returns nil if they are the same content, else an *Error that names every
// member that differs. What is stored is not told: whoever may create plants
// may not read them.
func Differences(sent, stored Plant) error {
	if sent == stored {
		return nil
	}
	var faults Faults
	if sent.Name != stored.Name {
		faults.Add(CodeDifferentName, "a plant with this id is stored with a different name")
	}
	if sent.Tag != stored.Tag {
		faults.Add(CodeDifferentTag, "a plant with this id is stored with "+tagDifference(sent.Tag, stored.Tag))
	}
	return faults.Err()
}

func tagDifference(sent, stored Tag) string {
	switch {
	case !stored.present:
		return "no tag"
	case !sent.present:
		return "a tag"
	default:
		return "a different tag"
	}
}
