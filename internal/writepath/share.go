package writepath

import (
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// A credential may have three plants in the pending batch for each free place. So one credential can fill three
// quarters of the queue. With n such credentials, one place in 3n+1 stays free, and a credential with few plants always
// finds a place. The rule also holds for the bytes of the plants.
const sharePerFree = 3

// share is one credential's part of the pending batch.
type share struct{ plants, bytes int }

// refuseShare returns an error if the credential of c has used up its share of the pending batch. The caller has locked
// mu.
func (w *writer) refuseShare(b *pendingBatch, c store.Create) error {
	freePlants, freeBytes := w.limit.QueueMax-len(b.creates), w.limit.Bytes-b.bytes
	if len(b.creates) < sharePerFree*freePlants && b.bytes < sharePerFree*freeBytes {
		return nil // no credential can have more than all of them
	}
	has := b.shareOf(c.By)
	if has.plants < sharePerFree*freePlants && has.bytes < sharePerFree*freeBytes {
		return nil
	}
	w.metrics.refusedShare.Add(1)
	return plant.Errorf(plant.CodeQueueFull, "the plant was not stored because the queue is nearly full and "+
		"this credential has its share of it; send it again")
}

// shareOf returns the share of a credential. The batch starts to count shares with the first call, when it is nearly
// full, so a create usually costs nothing.
func (b *pendingBatch) shareOf(by int64) share {
	if b.shares == nil {
		b.shares = make(map[int64]share)
		for _, c := range b.creates {
			b.countShare(c)
		}
	}
	return b.shares[by]
}

func (b *pendingBatch) countShare(c store.Create) {
	s := b.shares[c.By]
	b.shares[c.By] = share{plants: s.plants + 1, bytes: s.bytes + c.Plant.Bytes()}
}
