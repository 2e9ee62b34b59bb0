//go:build linux

package power

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	blockBytes = 4096 // the disk writes a block in whole or not at all
	diskBlocks = 128 << 20 / blockBytes
	diskBytes  = blockBytes * diskBlocks
)

// entry is a written block or a flush in the log of a disk.
type entry struct {
	block int
	data  []byte // immutable; nil for a flush
}

// disk is an image in memory, and a file of a FUSE file system.
type disk struct {
	fs.Inode

	mu      sync.Mutex
	blocks  [][]byte // immutable blocks; nil is a block of zeros; guarded by mu
	logging bool     // guarded by mu
	log     []entry  // guarded by mu
	flushes int      // guarded by mu
}

var (
	_ fs.NodeGetattrer = (*disk)(nil)
	_ fs.NodeSetattrer = (*disk)(nil)
	_ fs.NodeOpener    = (*disk)(nil)
	_ fs.NodeReader    = (*disk)(nil)
	_ fs.NodeWriter    = (*disk)(nil)
	_ fs.NodeFsyncer   = (*disk)(nil)
)

func newDisk() *disk { return &disk{blocks: make([][]byte, diskBlocks)} }

// clone returns a disk with the same content and an empty log.
func (d *disk) clone(logging bool) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &disk{blocks: slices.Clone(d.blocks), logging: logging}
}

// position returns the length of the log.
func (d *disk) position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

// stopLog stops logging and returns the log.
func (d *disk) stopLog() (log []entry, flushes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logging = false
	log, d.log = d.log, nil
	return log, d.flushes
}

// cut returns the disk after a power cut at a position of its log: it has all writes before the last flush, and a
// random half of the later ones; sometimes all or none of them.
func (d *disk) cut(log []entry, at int, random *rand.Rand) *disk {
	after := d.clone(false)
	flushed := at - unflushed(log, at)
	share := []float64{0, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}[random.IntN(8)]
	for i, e := range log[:at] {
		if e.data != nil && (i < flushed || random.Float64() < share) {
			after.blocks[e.block] = e.data
		}
	}
	return after
}

// unflushed returns the number of blocks written between the last flush and a position of a log.
func unflushed(log []entry, at int) int {
	n := 0
	for n < at && log[at-1-n].data != nil {
		n++
	}
	return n
}

// Getattr returns the size.
func (d *disk) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size, out.Blocks = syscall.S_IFREG|0o600, diskBytes, diskBytes/512
	return 0
}

// Setattr does nothing: the size is fixed.
func (d *disk) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return d.Getattr(ctx, f, out)
}

// Open disables the kernel's page cache, so that writes arrive in order.
func (d *disk) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (d *disk) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for n < len(dest) && off+int64(n) < diskBytes {
		at := off + int64(n)
		rest := dest[n:min(len(dest), n+blockBytes-int(at%blockBytes))]
		if b := d.blocks[at/blockBytes]; b != nil {
			copy(rest, b[at%blockBytes:])
		} else {
			clear(rest)
		}
		n += len(rest)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

func (d *disk) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if off+int64(len(data)) > diskBytes {
		return 0, syscall.ENOSPC
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := 0; n < len(data); {
		block, from := int((off+int64(n))/blockBytes), int((off+int64(n))%blockBytes)
		b := make([]byte, blockBytes)
		copy(b, d.blocks[block]) // mkfs writes partial blocks
		n += copy(b[from:], data[n:])
		d.blocks[block] = b
		if d.logging {
			d.log = append(d.log, entry{block, b})
		}
	}
	return uint32(len(data)), 0
}

// Fsync is the flush of the disk.
func (d *disk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logging {
		d.log = append(d.log, entry{})
		d.flushes++
	}
	return 0
}
