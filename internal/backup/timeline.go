package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// The commits in a destination are timelines. A timeline is one line of commits, without a fork: only one session of
// a server adds to it. It begins at the first commit of a store, or follows a commit of another timeline, after a
// restart, a restore, or when another server takes over. The numbers of its commits go on from there.

// timeline is the content of the object with a timeline's beginning, which never changes.
type timeline struct {
	ID      string    `json:"timeline"`
	Store   string    `json:"store"`          // identity
	From    string    `json:"from,omitempty"` // the timeline that it follows; empty: none
	Commits int64     `json:"commits"`        // number of the last commit before it
	Since   time.Time `json:"since"`
	Host    string    `json:"host"`
	// Earlier means that it may follow an earlier commit than the newest one. Another server's retention, which has begun
	// before, may still remove what leads to that, so it needs a backup of its own.
	Earlier bool `json:"earlier,omitempty"`
	// Fenced means that its server was fenced before: none of its commits was acknowledged because of a segment.
	Fenced bool `json:"fenced,omitempty"`
	// Knew are the timelines whose later commits its owner, or an owner before it, has left out.
	Knew []string `json:"knew,omitempty"`
	// Unused are timelines without commits: their servers were fenced, so what they still stored was not acknowledged.
	Unused []string `json:"unused,omitempty"`
}

// owner is the content of the object that tells which server may add commits. Each start of a server has a session.
type owner struct {
	Session  string    `json:"session"`
	Timeline string    `json:"timeline"`
	After    string    `json:"after,omitempty"` // the timeline that counts until that has begun; empty: none
	Store    string    `json:"store"`           // identity
	Since    time.Time `json:"since"`
	Host     string    `json:"host"`

	// Without a renewal for so long, it accepts no plants; 0: it renews nothing.
	Failover time.Duration `json:"failover,omitempty"`
}

const (
	ownerEnd    = "owner"
	timelineEnd = ".timeline"
)

func (n series) ownerName() string             { return n.segmentPrefix() + ownerEnd }
func (n series) timelineName(id string) string { return n.segmentPrefix() + id + timelineEnd }

// timelineOf returns the timeline in the name of the object with its beginning.
func (n series) timelineOf(name string) (id string, ok bool) {
	id, ok = strings.CutPrefix(name, n.segmentPrefix())
	id, isTimeline := strings.CutSuffix(id, timelineEnd)
	return id, ok && isTimeline && id != "" && !strings.Contains(id, ".")
}

// readObject reads a small object with JSON. The error wraps fs.ErrNotExist if there is none.
func readObject(ctx context.Context, to destination, name string, v any) error {
	const bytesMax = 1 << 20
	text, err := read(ctx, to, name, bytesMax)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil { // the owner stores itself again, or makes a backup
		return fmt.Errorf("%s is damaged: %w; remove it while the server runs, which then does without it",
			to.location(name), err)
	}
	return nil
}

func putObject(ctx context.Context, to destination, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return to.put(ctx, name, append(text, '\n'))
}

// readOwner returns the owner of a destination; the zero value without one.
func (a *Archive) readOwner(ctx context.Context) (o owner, err error) {
	err = readObject(ctx, a.to, a.names.ownerName(), &o)
	if errors.Is(err, fs.ErrNotExist) {
		return owner{}, nil
	}
	return o, err
}

// readTimeline returns a timeline, whose object is read once.
func (a *Archive) readTimeline(ctx context.Context, id string) (t timeline, err error) {
	a.mu.Lock()
	t, known := a.timelines[id]
	a.mu.Unlock()
	if known {
		return t, nil
	}
	if err := readObject(ctx, a.to, a.names.timelineName(id), &t); err != nil {
		return t, err
	}
	if t.ID != id {
		return t, fmt.Errorf("%s: it is of another timeline", a.to.location(a.names.timelineName(id)))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timelines[id] = t
	return t, nil
}
