package limit

// Len returns the number of keys in the table.
func (b *Buckets[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.fullAt)
}

// Keys returns the number of keys.
func (p *Places[K]) Keys() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.keys)
}
