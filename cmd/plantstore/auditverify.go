package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

func newAuditVerify(p *program) *cobra.Command {
	s := &settings{}
	var expected expectedHead
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the audit log for changed and missing entries",
		Long: `Check the chain of the audit log: no entry is changed, missing, added or at another
place. The command prints the first fault, or the number of entries and the head:
sequence number and hash of the newest entry.

A person with write access to the store can replace the whole log by another valid
one. So note the head elsewhere from time to time, and compare the log with it by
--expect. The exit code is 0 without a fault, and 1 with one.`,
		Example: `  plantstore audit verify
  plantstore audit verify --json > head.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd, s, engineOptions{readOnly: true}, func(ctx context.Context, engine store.Engine) error {
				return p.verifyAudit(ctx, engine, expected.link, s.db.String(), asJSON)
			})
		},
	}
	s.bindStore(cmd.Flags())
	cmd.Flags().Var(&expected, "expect", "a `head` that this command printed before, with colon: SEQUENCE:HASH")
	bindJSON(cmd.Flags(), &asJSON, "print a JSON object")
	return cmd
}

// auditFacts is the output of audit verify --json.
type auditFacts struct {
	DB      string      `json:"db"` // without its password
	Whole   bool        `json:"whole"`
	Entries int64       `json:"entries"`
	First   int64       `json:"first,omitempty"` // sequence number of the oldest entry that was not pruned
	Head    string      `json:"head,omitempty"`
	Fault   *auditFault `json:"fault,omitempty"`
}

// auditFault is the first fault of an audit log.
type auditFault struct {
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time,omitzero"`
	Kind     string    `json:"kind"`
	Reason   string    `json:"reason"`
}

func (p *program) verifyAudit(
	ctx context.Context, engine store.Engine, expected audit.Link, db string, asJSON bool,
) error {
	ends, err := checkAudit(ctx, engine)
	if err == nil {
		err = checkExpected(ctx, engine, ends, expected)
	}
	var fault *audit.Fault
	if err != nil && !errors.As(err, &fault) {
		return err
	}
	if asJSON {
		err = writeJSON(p.stdout, newAuditFacts(db, ends, fault))
	} else {
		err = p.printAuditVerification(db, ends, fault)
	}
	if err == nil && fault != nil {
		err = fmt.Errorf("the audit log of %s is damaged", db)
	}
	return err
}

// checkAudit verifies the chain. A server may append and prune entries at the same time, so a fault counts only if the
// ends of the log did not change.
func checkAudit(ctx context.Context, engine store.Engine) (audit.Ends, error) {
	const tries = 10
	for try := 1; ; try++ {
		ends, err := engine.AuditEnds(ctx)
		if err != nil {
			return ends, err
		}
		err = audit.Verify(ends, auditRows(ctx, engine, math.MinInt64))
		var fault *audit.Fault
		if !errors.As(err, &fault) || try == tries {
			return ends, err
		}
		if now, errEnds := engine.AuditEnds(ctx); errEnds != nil || now == ends {
			return ends, err
		}
	}
}

// checkExpected returns a *audit.Fault unless an entry is in the log. The zero value is in every log.
func checkExpected(ctx context.Context, engine store.Engine, ends audit.Ends, expected audit.Link) error {
	switch {
	case expected == audit.Link{} || expected == ends.Anchor:
		return nil
	case expected.Sequence < ends.Anchor.Sequence:
		return usagef("expect: entry %d was pruned and cannot be compared; note a new head", expected.Sequence)
	case expected.Sequence > ends.Head.Sequence:
		return &audit.Fault{
			Sequence: ends.Head.Sequence + 1, Kind: audit.ErrMissing,
			Reason: fmt.Sprintf("the log once had entry %d, and its newest entry is %d", expected.Sequence, ends.Head.Sequence),
		}
	}
	rows, err := engine.AuditRows(ctx, expected.Sequence-1, 1)
	if err != nil {
		return err
	}
	if expected.Sequence == ends.Anchor.Sequence || len(rows) == 0 || rows[0].Link() != expected {
		return &audit.Fault{
			Sequence: expected.Sequence, Kind: audit.ErrChanged,
			Reason: "its hash is not the expected one; this entry or one before it was replaced",
		}
	}
	return nil
}

func newAuditFacts(db string, ends audit.Ends, fault *audit.Fault) auditFacts {
	f := auditFacts{DB: db, Whole: fault == nil, Entries: ends.Head.Sequence - ends.Anchor.Sequence}
	if f.Entries > 0 {
		f.First = ends.Anchor.Sequence + 1
	}
	if ends.Head.Sequence > 0 {
		f.Head = headText(ends.Head)
	}
	if fault != nil {
		f.Fault = &auditFault{fault.Sequence, fault.Time, fault.Kind.Error(), fault.Reason}
	}
	return f
}

func (p *program) printAuditVerification(db string, ends audit.Ends, fault *audit.Fault) (err error) {
	switch entries := ends.Head.Sequence - ends.Anchor.Sequence; {
	case fault != nil:
		_, err = fmt.Fprintln(p.stdout, printable(fault.Error()))
	case ends.Head.Sequence == 0:
		_, err = fmt.Fprintf(p.stdout, "the audit log of %s is undamaged: it has no entries yet\n", printable(db))
	default:
		_, err = fmt.Fprintf(p.stdout, "the audit log of %s is undamaged: %d entries, head %s\n",
			printable(db), entries, headText(ends.Head))
	}
	return err
}

func headText(head audit.Link) string { return fmt.Sprintf("%d:%s", head.Sequence, head.Hash) }

// expectedHead is a flag with the head of a log.
type expectedHead struct{ link audit.Link }

func (h *expectedHead) Type() string { return "head" }

func (h *expectedHead) String() string {
	if h.link == (audit.Link{}) {
		return ""
	}
	return headText(h.link)
}

// Set implements pflag.Value.
func (h *expectedHead) Set(text string) error {
	sequence, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(sequence, 10, 64)
	bytes, errHash := hex.DecodeString(hash)
	if err != nil || n < 1 || errHash != nil || len(bytes) != len(h.link.Hash) {
		return fmt.Errorf("%q is not a head; use the form 42: and 64 hexadecimal digits, as audit verify prints it", text)
	}
	h.link = audit.Link{Sequence: n, Hash: audit.HashFrom(bytes)}
	return nil
}
