package backup

import (
	"slices"
	"sync"
)

// recent has the contents of the segments that this server has stored lately, so that it can merge them without reading
// them again. With a bucket far away, that would take longer than storing them.
type recent struct {
	mu       sync.Mutex
	contents map[string][]byte // guarded by mu, as the other field
	bytes    int
}

// recentBytesMax bounds the contents: a minute of segments with some hundred plants a second.
const recentBytesMax = 16 << 20

// add adds a content. If there is no space for it, the others go.
func (r *recent) add(name string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes += len(content); r.contents == nil || r.bytes > recentBytesMax {
		r.contents, r.bytes = map[string][]byte{}, len(content)
	}
	r.contents[name] = slices.Clone(content)
}

func (r *recent) get(name string) (content []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	content, ok = r.contents[name]
	return content, ok
}

func (r *recent) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= len(r.contents[name])
	delete(r.contents, name)
}
