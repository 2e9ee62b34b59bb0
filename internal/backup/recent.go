package backup

import (
	"slices"
	"sync"
)

// recent has the contents of the newest segments that this server has stored, so that it can merge them without reading
// them again. With a bucket far away, that would take longer than storing them.
type recent struct {
	mu       sync.Mutex
	names    []string // oldest first; guarded by mu, as the other fields
	contents map[string][]byte
	bytes    int
}

// recentBytesMax bounds the contents: a minute of segments with some hundred plants a second.
const recentBytesMax = 16 << 20

func (r *recent) add(name string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.contents == nil {
		r.contents = map[string][]byte{}
	}
	r.names, r.contents[name] = append(r.names, name), slices.Clone(content)
	for r.bytes += len(content); r.bytes > recentBytesMax; {
		r.drop(0)
	}
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
	if i := slices.Index(r.names, name); i >= 0 {
		r.drop(i)
	}
}

// drop removes a content. The caller has locked mu.
func (r *recent) drop(i int) {
	r.bytes -= len(r.contents[r.names[i]])
	delete(r.contents, r.names[i])
	r.names = slices.Delete(r.names, i, i+1)
}
