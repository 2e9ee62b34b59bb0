package limit

// Len returns the number of keys in the table.
func (b *Buckets[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.fullAt)
}
